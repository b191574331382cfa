"""The web server: one event loop in each process gathers requests, threads answer them.

A request takes a thread only when all of it has come, and gives it back before its answer is sent.
So whoever sends slowly or reads slowly costs a socket, and no thread:

    connection  aiohttp reads requests and writes answers, each part within its time
    exchange    the way of one request: admission, body, thread, answer
    refusals    what is refused before it is a request: counted, logged
    uploads     how many bodies may be under way, for each sender and in all
    senders     who sends a request: a partner, a token, a user, or nobody but an address
    pool        the threads, shared fairly between senders
    spool       bytes that wait: in memory up to a limit for all, then in a file
    call        a WSGI application, called with a whole request

`python -m msh.web --host 0.0.0.0 --port 8000` starts the processes (`__main__`), each of which
runs `serve`. ARCHITECTURE.md and two pages of docs/decisions about the web server say why.
"""
