"""A stream that remembers events, which `test_publish.py` kills repeatedly.

It prints ``ready`` when Spark has started, waits for a line, and then publishes all events.

Usage: python interrupted_publish.py EVENTS INDEX OUTPUT CHECKPOINT
"""

from __future__ import annotations

import sys

from tamis import spark as ts


def main() -> None:
    events, index, output, checkpoint = sys.argv[1:]
    spark = ts.local_session(2, memory="1g", **{"spark.sql.session.timeZone": "UTC"})
    stream = (
        spark.readStream.schema("id long, user string, x long")
        .option("maxFilesPerTrigger", 1)
        .parquet(events)
    )
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    found = ts.publish(stream, index, order="id")
    writer = found.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start(output).awaitTermination()
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main()
