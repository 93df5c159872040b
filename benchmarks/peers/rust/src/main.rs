//! The driver of a-tree: `driver FOLDER SECONDS`; see benchmarks/peers/drivers.py.
use a_tree::{ATree, AttributeDefinition};
use std::{env, fs};

/// The CPU time of this process in seconds; the kernel counts in hundredths.
fn cpu() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn main() {
    let folder = env::args().nth(1).unwrap();
    let limit: f64 = env::args().nth(2).unwrap().parse().unwrap();
    let rules = fs::read_to_string(format!("{folder}/rules.txt")).unwrap();
    let events = fs::read_to_string(format!("{folder}/events.txt")).unwrap();

    let started = cpu();
    let names: Vec<_> = (0..20).map(|n| AttributeDefinition::string(&format!("a{n}"))).collect();
    let mut tree = ATree::<u64>::new(&names).unwrap();
    for (number, line) in rules.lines().enumerate() {
        let clauses: Vec<String> = line
            .split('\t')
            .map(|clause| {
                let (name, values) = clause.split_once('=').unwrap();
                format!("{name} in ['{}']", values.replace('|', "', '"))
            })
            .collect();
        tree.insert(&(number as u64), &clauses.join(" and ")).unwrap();
    }
    let built = cpu() - started;

    let parsed: Vec<Vec<(&str, &str)>> = events
        .lines()
        .map(|line| line.split('\t').map(|pair| pair.split_once('=').unwrap()).collect())
        .collect();
    let (mut matches, mut done) = (0, 0);
    let started = cpu();
    for event in &parsed {
        let mut builder = tree.make_event();
        for (name, value) in event {
            builder.with_string(name, value).unwrap();
        }
        matches += tree.search(&builder.build().unwrap()).unwrap().matches().len();
        done += 1;
        if done % 16 == 0 && cpu() - started > limit {
            break;
        }
    }
    let taken = cpu() - started;
    println!("{{\"build\": {built}, \"events\": {done}, \"matches\": {matches}, \"seconds\": {taken}}}");
}
