"""A streaming job that `test_stream.py` kills repeatedly.

It prints ``ready`` when Spark has started, waits for a line, and then matches all events.

Usage: python interrupted_stream.py EVENTS INDEX OUTPUT CHECKPOINT
"""

from __future__ import annotations

import sys

from tamis import spark as ts


def main() -> None:
    events, index, output, checkpoint = sys.argv[1:]
    spark = ts.local_session(2, memory="1g", **{"spark.sql.session.timeZone": "UTC"})
    stream = (
        spark.readStream.schema("event_id long, x long")
        .option("maxFilesPerTrigger", 1)
        .parquet(events)
    )
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    query = ts.match_stream(
        stream, index, output=output, checkpoint=checkpoint, trigger="availableNow"
    )
    query.awaitTermination()
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main()
