"""Rules in a directory: which files are written, and how they are read again.

A directory holds a *manifest*, which names the *segment files* with their removed rules, and the
first *log* to replay on top of them. Every change is in the log before it is acknowledged. From
time to time a *checkpoint* writes the rules in memory to segment files, and a manifest that makes
the earlier logs superfluous. A *lock* admits one writer at a time. Files are written under another
name and renamed. None changes after that, except for the last log, which grows.
"""
