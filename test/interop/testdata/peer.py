"""A TaskFlow program that does what it is told: one JSON object per line on stdin, {"id", "op", "args"}.

It answers {"id", "result"} or {"id", "error", "text"}; operations that go on for a while say {"id", "event", "value"} before, and
hear what "tell" tells them. Every request has a thread of its own, so answers come in any order. It ends with stdin.
"""

import contextlib
import datetime
import json
import os
import sys
import threading

try:
    import redis
    from kazoo import client as kazoo
    from oslo_serialization import msgpackutils
    from taskflow import engines
    from taskflow import exceptions
    from taskflow.conductors import backends as conductors
    from taskflow.jobs import backends as boards
    from taskflow.persistence import backends as persistences
    from taskflow.persistence import models
    from taskflow.types import entity
except ImportError as missing:
    print(json.dumps({"id": 0, "error": "ImportError", "text": str(missing)}), flush=True)
    sys.exit(1)

stdout = threading.Lock()


def say(**line):
    with stdout:
        print(json.dumps(line), flush=True)


# JSON has one kind of numbers and texts for keys; other values travel as a map with one key that begins with $.
def tag(v):
    if isinstance(v, float):
        return {"$float": repr(v)}
    if isinstance(v, datetime.datetime):
        return {"$datetime": v.isoformat(timespec="microseconds")}
    if isinstance(v, bytes):
        return {"$bytes": v.hex()}
    if isinstance(v, frozenset):
        return {"$frozenset": sorted(v)}
    if isinstance(v, set):
        return {"$set": sorted(v)}
    if isinstance(v, (list, tuple)):
        return [tag(e) for e in v]
    if isinstance(v, dict):
        return {k: tag(e) for k, e in v.items()}
    return v


untags = {
    "$float": float,
    "$datetime": datetime.datetime.fromisoformat,
    "$bytes": bytes.fromhex,
    "$set": set,
    "$frozenset": frozenset,
    "$pairs": lambda pairs: {k: untag(v) for k, v in pairs},
}


def untag(v):
    if isinstance(v, list):
        return [untag(e) for e in v]
    if isinstance(v, dict):
        for name, make in untags.items():
            if name in v:
                return make(v[name])
        return {k: untag(e) for k, e in v.items()}
    return v


class Call:
    """What an operation that goes on for a while says and hears."""

    def __init__(self, id):
        self.id = id
        self.told = {"go": threading.Event(), "stop": threading.Event()}

    def say(self, event, value=None):
        say(id=self.id, event=event, value=value)


class Board:
    """One board, and the jobs of it that were seen."""

    def __init__(self, conf, books):
        self.conf = conf
        self.persistence = persistences.fetch({"connection": "dir", "path": books})
        with contextlib.closing(self.persistence.get_connection()) as c:
            c.upgrade()
        self.board = boards.fetch("peer", conf, persistence=self.persistence)
        self.board.connect()
        self.jobs = {}

    def close(self, call):
        self.board.close()

    def listed(self, **how):
        found = list(self.board.iterjobs(ensure_fresh=True, **how))
        self.jobs.update((j.uuid, j) for j in found)
        return found

    def job(self, uuid):
        if uuid not in self.jobs:
            self.listed()
        if uuid not in self.jobs:
            raise exceptions.NotFound("job %s was never seen" % uuid)
        return self.jobs[uuid]

    def describe(self, job):
        state = job.state
        return {
            "uuid": job.uuid,
            "name": job.name,
            "priority": job.priority.value,
            "state": state,
            "owner": self.board.find_owner(job) if state == "CLAIMED" else "",
            "sequence": job.sequence,
            "book": {"name": job.book_name, "uuid": job.book_uuid} if job.book_uuid else None,
            "details": tag(job.details),
            "created_on": tag(job.created_on),
            "last_modified": tag(job.last_modified),
        }

    def post(self, call, name, details=None, priority="NORMAL", book=None, flows=()):
        """Posts a job; with flows, its book is stored with one flow for each, made by the factory that it names."""
        logbook = None
        if book:
            logbook = models.LogBook(book["name"], uuid=book["uuid"])
            for flow in flows:
                detail = models.FlowDetail(flow["name"], uuid=flow["uuid"])
                logbook.add(detail)
                engines.save_factory_details(detail, flow["factory"], flow["args"], {})
            if flows:
                with contextlib.closing(self.persistence.get_connection()) as c:
                    c.save_logbook(logbook)
        job = self.board.post(name, book=logbook, details=untag(details), priority=priority)
        self.jobs[job.uuid] = job
        return self.describe(job)

    def post_raw(self, call, record):
        """Posts as a program that is newer than this one would: a record with whatever keys."""
        record = untag(record)
        if self.conf["board"] == "zookeeper":
            c = kazoo.KazooClient(self.conf["hosts"])
            c.start()
            try:
                return c.create(self.conf["path"] + "/job", json.dumps(record).encode(), sequence=True)
            finally:
                c.stop()
                c.close()
        c = redis.Redis(self.conf["host"], self.conf["port"])
        namespace = self.conf["namespace"]
        record["sequence"] = c.incr(namespace + ":sequence")
        record["created_on"] = datetime.datetime.utcnow()
        c.hset(namespace + ":listings", record["uuid"], msgpackutils.dumps(record))
        c.close()

    def list(self, call, only_unclaimed=False):
        return [self.describe(j) for j in self.listed(only_unclaimed=only_unclaimed)]

    def claim(self, call, uuid, who, expiry=None):
        self.board.claim(self.job(uuid), who, **({"expiry": expiry} if expiry else {}))

    def consume(self, call, uuid, who):
        self.board.consume(self.job(uuid), who)

    def abandon(self, call, uuid, who):
        self.board.abandon(self.job(uuid), who)

    def trash(self, call, uuid, who):
        self.board.trash(self.job(uuid), who)

    def find_owner(self, call, uuid):
        return self.board.find_owner(self.job(uuid))

    def state(self, call, uuid):
        return self.job(uuid).state

    def last_modified(self, call, uuid):
        return tag(self.job(uuid).last_modified)

    def wait(self, call, timeout):
        call.say("waiting")
        return [j.uuid for j in self.board.wait(timeout=timeout)]

    def job_wait(self, call, uuid, timeout):
        job = self.job(uuid)
        call.say("waiting")
        return job.wait(timeout=timeout)

    def register(self, call, name, metadata):
        self.board.register_entity(entity.Entity("conductor", name, untag(metadata)))

    def book(self, call, uuid):
        """Loads the book of a job, as conductors do."""
        book = self.job(uuid).book
        return {"name": book.name, "uuid": book.uuid, "flows": [
            {"name": f.name, "uuid": f.uuid, "meta": f.meta} for f in book]}

    def conductor(self, call, name):
        """Runs a conductor until it is told to stop."""
        finished = {"job_consumed": [], "job_abandoned": []}
        c = conductors.fetch("blocking", name, self.board, persistence=self.persistence, engine="serial", wait_timeout=0.05)

        def note(event, details):
            finished[event].append(details["job"].uuid)
            call.say(event, details["job"].uuid)

        for event in finished:
            c.notifier.register(event, note)
        failures = []

        def run():
            try:
                c.run()
            except Exception as e:
                failures.append(e)
                call.told["stop"].set()

        runner = threading.Thread(target=run)
        runner.start()
        call.told["stop"].wait()
        c.stop()
        runner.join()
        if failures:
            raise failures[0]
        return finished

    def worker(self, call, who):
        """Claims and consumes until it is told to stop. It says what it claimed first, and waits for a go before it goes on."""
        consumed, lost, failed = [], 0, []
        first, go, stop = True, call.told["go"], call.told["stop"]
        while not stop.is_set():
            found = 0
            for job in self.board.iterjobs(only_unclaimed=True, ensure_fresh=True):
                found += 1
                try:
                    self.board.claim(job, who)
                except (exceptions.UnclaimableJob, exceptions.NotFound):
                    lost += 1
                    continue
                if first:
                    first = False
                    call.say("claimed", job.uuid)
                    go.wait()
                try:
                    self.board.consume(job, who)
                except exceptions.TaskFlowException as e:
                    failed.append("%s: %s: %s" % (job.uuid, type(e).__name__, e))
                else:
                    consumed.append(job.uuid)
                    call.say("consumed", job.uuid)
            if not found:
                stop.wait(0.02)
        return {"consumed": consumed, "lost": lost, "failed": failed}


opened = {}
calls = {}


def carry_out(call, op, board=None, **args):
    if op == "open":
        opened[call.id] = Board(**args)
        return call.id
    if op == "tell":
        calls[args["id"]].told[args["what"]].set()
        return None
    return getattr(opened[board], op)(call, **args)


def serve(call, op, args):
    try:
        result = carry_out(call, op, **args)
    except Exception as e:
        say(id=call.id, error=type(e).__name__, text=str(e))
    else:
        say(id=call.id, result=result)


say(id=0, result="ready")
for line in sys.stdin:
    request = json.loads(line)
    call = calls[request["id"]] = Call(request["id"])
    threading.Thread(target=serve, args=(call, request["op"], request["args"]), daemon=True).start()
os._exit(0)
