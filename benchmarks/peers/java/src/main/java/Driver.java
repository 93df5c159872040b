import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.lucene.analysis.core.KeywordAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.StringField;
import org.apache.lucene.index.Term;
import org.apache.lucene.monitor.Monitor;
import org.apache.lucene.monitor.MonitorQuery;
import org.apache.lucene.monitor.QueryMatch;
import org.apache.lucene.monitor.TermFilteredPresearcher;
import org.apache.lucene.search.BooleanClause.Occur;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.TermQuery;
import software.amazon.event.ruler.Machine;

/** The driver of the peers in Java: {@code Driver PEER FOLDER SECONDS}; see drivers.py. */
public class Driver {
  interface Count {
    long of(String event) throws Exception;
  }

  public static void main(String[] args) throws Exception {
    List<String> rules = Files.readAllLines(Path.of(args[1], "rules.txt"));
    List<String> events = Files.readAllLines(Path.of(args[1], "events.txt"));
    double limit = Double.parseDouble(args[2]);
    double started = cpu();
    Count count = args[0].equals("lucene-monitor") ? lucene(rules) : ruler(rules);
    double built = cpu() - started;
    for (double end = cpu() + limit; cpu() < end; ) {
      for (int n = 0; n < 20; n++) count.of(events.get(n % events.size())); // the JIT warms up
    }
    long matches = 0;
    int done = 0;
    started = cpu();
    for (String event : events) {
      matches += count.of(event);
      done++;
      if (cpu() - started > limit) break;
    }
    double taken = cpu() - started;
    System.out.printf(
        Locale.ROOT, "{\"build\": %f, \"events\": %d, \"matches\": %d, \"seconds\": %f}%n",
        built, done, matches, taken);
    System.exit(0);
  }

  /** The CPU time of this process in seconds, its compiler and garbage collector included. */
  static double cpu() {
    return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
  }

  static Count lucene(List<String> rules) throws Exception {
    Monitor monitor = new Monitor(new KeywordAnalyzer(), new TermFilteredPresearcher());
    List<MonitorQuery> queries = new ArrayList<>();
    for (int n = 0; n < rules.size(); n++) {
      BooleanQuery.Builder all = new BooleanQuery.Builder();
      for (String clause : rules.get(n).split("\t")) {
        String[] parts = clause.split("=");
        BooleanQuery.Builder any = new BooleanQuery.Builder();
        for (String value : parts[1].split("\\|")) {
          any.add(new TermQuery(new Term(parts[0], value)), Occur.SHOULD);
        }
        all.add(any.build(), Occur.MUST);
      }
      queries.add(new MonitorQuery(Integer.toString(n), all.build()));
    }
    monitor.register(queries);
    return event -> {
      Document document = new Document();
      for (String pair : event.split("\t")) {
        String[] parts = pair.split("=");
        document.add(new StringField(parts[0], parts[1], Field.Store.NO));
      }
      return monitor.match(document, QueryMatch.SIMPLE_MATCHER).getMatchCount();
    };
  }

  static Count ruler(List<String> rules) throws Exception {
    Machine machine = new Machine();
    for (int n = 0; n < rules.size(); n++) {
      String clauses =
          Stream.of(rules.get(n).split("\t"))
              .map(clause -> clause.split("="))
              .map(c -> "\"" + c[0] + "\": [\"" + c[1].replace("|", "\", \"") + "\"]")
              .collect(Collectors.joining(", "));
      machine.addRule(Integer.toString(n), "{" + clauses + "}");
    }
    return event ->
        machine.rulesForJSONEvent(
                Stream.of(event.split("\t"))
                    .map(pair -> "\"" + pair.replace("=", "\": \"") + "\"")
                    .collect(Collectors.joining(", ", "{", "}")))
            .size();
  }
}
