"""One TaskFlow process of the benchmark: peer.py HOST PORT NAMESPACE WORK N. It says ready, waits for a line, works, and says what it did as a JSON object."""

import json
import sys
import time

from taskflow import exceptions
from taskflow.jobs import backends

host, port, namespace, work, n = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
board = backends.fetch("bench", {"board": "redis", "host": host, "port": port, "namespace": namespace})
board.connect()
who = "bench-%s" % time.monotonic_ns()


def take(job):
    """Claims and consumes a job; False if somebody else has it."""
    try:
        board.claim(job, who)
        board.consume(job, who)
    except (exceptions.UnclaimableJob, exceptions.NotFound):
        return False
    return True


def post():
    for _ in range(n):
        board.post("bench")
    return n


def listing():
    return sum(1 for job in board.iterjobs(ensure_fresh=True) if job.state)


def hand():
    """The jobs are known before, which is the fastest that it can be; each worker begins elsewhere."""
    return sum(take(job) for job in jobs)


def iterate():
    return sum(take(job) for job in board.iterjobs(only_unclaimed=True, ensure_fresh=True))


def documented():
    """The loop of the documentation: the first unclaimed job, again and again, here for n seconds at most."""
    done, end = 0, time.monotonic() + n
    while time.monotonic() < end:
        for job in board.iterjobs(only_unclaimed=True, ensure_fresh=True):
            if take(job):
                done += 1
                break
        else:
            break
    return done


jobs = []
if work == "hand":
    jobs = list(board.iterjobs(ensure_fresh=True))
    start = n * len(jobs) // 4 if n < 4 else 0
    jobs = jobs[start:] + jobs[:start]
print("ready", flush=True)
sys.stdin.readline()
begin = time.monotonic()
did = {"post": post, "list": listing, "hand": hand, "iterate": iterate, "documented": documented}[work]()
print(json.dumps({"did": did, "seconds": time.monotonic() - begin}), flush=True)
board.close()
