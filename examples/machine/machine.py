#!/usr/bin/env python3
"""A machine that runs job orders without a recipe, in Python (Debian's python3-paho-mqtt).

    machine.py --port 1883 --prefix takt --scope press-7 --journal press-7.jsonl

Takt sends Start on {prefix}/equipment/{scope}/commands, and repeats it until it is answered. The machine notes the order in its
journal, answers, and then says on {prefix}/equipment/{scope}/events what becomes of it: Run, ReceiveJobResponse, End. It repeats each
message under the same id until Takt answers, so it may be killed at any moment and go on with its journal.
"""
import argparse
import json
import os
import queue
import sys

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

TYPE = "org.opcfoundation.ISA95-JOBCONTROL_V2.%s.v2"
REPEAT = 2  # seconds without a reply

flags = argparse.ArgumentParser()
flags.add_argument("--port", type=int, default=1883)
flags.add_argument("--prefix", default="takt")
flags.add_argument("--scope", required=True)
flags.add_argument("--journal", required=True)
args = flags.parse_args()

equipment = f"{args.prefix}/equipment/{args.scope}"
replies = f"{args.prefix}/{args.scope}/replies/machine"
inbox = queue.Queue()  # orders to run, and replies by causation id

journal = open(args.journal, "a+", encoding="utf-8")
journal.seek(0)
known = {}  # Start id -> steps that Takt has answered
orders = {}  # order id -> its latest Start id
revoked = set()  # Start ids of orders that were taken back, stopped or aborted
for line in journal:
    if not line.endswith("\n"):
        break  # the process was killed while it wrote
    entry = json.loads(line)
    known.setdefault(entry["start"], []).append(entry["step"])
    orders[entry["order"]] = entry["start"]


def note(start, order, step):
    """Writes one line to the disk before anything follows from it."""
    journal.write(json.dumps({"start": start, "order": order, "step": step}) + "\n")
    journal.flush()
    os.fsync(journal.fileno())
    known.setdefault(start, []).append(step)
    orders[order] = start


def attributes_of(message):
    return dict(getattr(message.properties, "UserProperty", []))


def event(cause, typ, ident, body, topic, response_topic=None, correlation=None):
    properties = Properties(PacketTypes.PUBLISH)
    properties.ContentType = "application/json"
    attributes = {"specversion": "1.0", "id": ident, "source": "urn:machine:" + args.scope, "type": typ, "subject": args.scope}
    if cause:
        attributes["causationid"] = cause
    properties.UserProperty = list(attributes.items())
    if response_topic:
        properties.ResponseTopic = response_topic
    if correlation:
        properties.CorrelationData = correlation
    client.publish(topic, json.dumps(body), qos=1, properties=properties)


def on_message(_client, _data, message):
    """Called in the order of arrival; the message is acknowledged when this returns."""
    about = attributes_of(message)
    if message.topic == replies:
        inbox.put(("reply", about.get("causationid"), json.loads(message.payload)))
        return
    body = json.loads(message.payload)
    if about["type"] == TYPE % "Start":
        order = body["JobOrder"]["JobOrderID"]
        if about["id"] not in known:
            note(about["id"], order, "Start")
            inbox.put(("run", (about["id"], order), None))
    elif about["type"] in (TYPE % "RevokeStart", TYPE % "Cancel", TYPE % "Stop", TYPE % "Abort"):
        revoked.add(orders.get(body["JobOrderID"]))
    event(about["id"], about["type"], about["id"] + "-answer", {"ReturnStatus": 1}, message.properties.ResponseTopic,
          correlation=getattr(message.properties, "CorrelationData", None))


def on_connect(_client, _data, _flags, reason, _properties):
    if reason != 0:
        sys.exit(f"the broker refuses the connection: {reason}")
    client.subscribe([(equipment + "/commands", mqtt.SubscribeOptions(qos=1)), (replies, mqtt.SubscribeOptions(qos=1))])


waiting = []  # (Start id, order id) that came while another one was at work


def say(start, order, step, body):
    """Tells Takt one step, again and again under one id until it answers; False: it refuses."""
    if step in known[start]:
        return True
    ident = f"{start}/{step}"
    while True:
        event(None, TYPE % step, ident, body, equipment + "/events", response_topic=replies)
        try:
            while True:
                kind, about, reply = inbox.get(timeout=REPEAT)
                if kind == "run":
                    waiting.append(about)
                elif about == ident:
                    if reply.get("ReturnStatus") != 1:
                        print(f"{order} {step} refused: {reply}", flush=True)
                        return False
                    note(start, order, step)
                    return True
        except queue.Empty:
            pass


client = mqtt.Client("machine-" + args.scope, protocol=mqtt.MQTTv5)
client.on_message, client.on_connect = on_message, on_connect
session = Properties(PacketTypes.CONNECT)
session.SessionExpiryInterval = 3600  # the broker keeps what comes while the machine is away
waiting.extend((start, order) for order, start in orders.items() if not {"End", "over"} & set(known[start]))
client.connect("127.0.0.1", args.port, clean_start=False, properties=session)
client.loop_start()
print("ready", flush=True)
while True:
    if not waiting:
        kind, about, _ = inbox.get()
        if kind != "run":
            continue  # the reply to a message that was sent twice
        waiting.append(about)
    start, order = waiting.pop(0)
    response = {"JobResponseID": "R-" + order, "JobOrderID": order, "JobResponseData": [{"ID": "pieces", "Value": 1}]}
    ended = (
        start not in revoked
        and say(start, order, "Run", {"JobOrderID": order})
        and say(start, order, "ReceiveJobResponse", {"JobResponse": response})
        and say(start, order, "End", {"JobOrderID": order})
    )
    if not ended:
        note(start, order, "over")
    print("ended" if ended else "not done:", order, flush=True)
