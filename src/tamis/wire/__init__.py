"""What server and client send each other: the bodies of requests and answers, and media types."""
