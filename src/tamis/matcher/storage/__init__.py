"""Rules in a directory: what is written where, and how it is had again.

A directory holds a *manifest*, which names the *segment files* with their removed rules, and the
first *log* to replay on top of them. Every change is in the log before it is acknowledged. From
time to time a *checkpoint* writes what memory holds as segment files, and a manifest that makes
the logs before it superfluous. Files are written aside and renamed, and are never changed after
that, but for the log, which grows.
"""
