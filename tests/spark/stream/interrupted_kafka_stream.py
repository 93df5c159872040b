"""A job over Kafka that `test_killed_kafka_streams.py` kills repeatedly.

It prints ``ready`` when Spark has started, waits for a line, and then matches all records of a
topic twice: into a folder, with dead letters in another, and into a topic.

Usage: python interrupted_kafka_stream.py SERVERS EVENTS MATCHES INDEX FOLDER JARS
"""

from __future__ import annotations

import sys

from tamis import spark as ts


def main() -> None:
    servers, events, matches, index, folder, jars = sys.argv[1:]
    conf = {"spark.sql.session.timeZone": "UTC", "spark.jars": jars}
    spark = ts.local_session(2, memory="1g", **conf)
    options = {"maxOffsetsPerTrigger": 40}
    stream = ts.read_kafka(spark, events, servers=servers, options=options)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    queries = [
        ts.match_stream(
            stream,
            index,
            output=f"{folder}/matches",
            dead_letters=f"{folder}/dead",
            checkpoint=f"{folder}/checkpoint",
            trigger="availableNow",
        ),
        ts.match_stream(
            stream,
            index,
            output=ts.Topic(matches, servers),
            checkpoint=f"{folder}/topic-checkpoint",
            on_error="skip",
            trigger="availableNow",
        ),
    ]
    for query in queries:
        query.awaitTermination()
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main()
