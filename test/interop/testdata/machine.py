#!/usr/bin/env python3
"""A machine that knows Takt by its documents alone: topics and types are those of schemas/asyncapi.yaml, and every body is checked against its schema.

    machine.py SCHEMAS PORT PREFIX SCOPE
"""
import json
import sys
import uuid

import jsonschema
import paho.mqtt.client as mqtt
import yaml
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

folder, port, prefix, scope = sys.argv[1:]
with open(folder + "/asyncapi.yaml", encoding="utf-8") as file:
    document = yaml.safe_load(file)
messages = document["components"]["messages"]
replies = f"{prefix}/{scope}/replies/machine"


def address(channel):
    return document["channels"][channel]["address"].format(prefix=prefix, scope=scope)


def types(message):
    return messages[message]["headers"]["allOf"][1]["properties"]["type"]["enum"]


def validator(message):
    with open(folder + "/" + messages[message]["payload"]["schema"]["$ref"], encoding="utf-8") as file:
        return jsonschema.Draft7Validator(json.load(file))


validators = {name: validator(name) for name, message in messages.items() if "payload" in message}


def check(message, body):
    validators[message].validate(body)
    return body


def publish(topic, typ, body, cause=None, correlation=None, answer_on=None, ident=None):
    properties = Properties(PacketTypes.PUBLISH)
    properties.ContentType = document["defaultContentType"]
    attributes = {"specversion": "1.0", "id": ident or str(uuid.uuid4()), "source": "urn:machine:" + scope, "type": typ, "subject": scope}
    if cause:
        attributes["causationid"] = cause
    if correlation:
        properties.CorrelationData = correlation
    if answer_on:
        properties.ResponseTopic = answer_on
    properties.UserProperty = list(attributes.items())
    client.publish(topic, json.dumps(body), qos=1, properties=properties)


steps = {}  # id of a message of ours -> what follows
started = set()


def tell(order, message, body, then):
    ident = f"{order}/{message}"
    steps[ident] = then
    publish(address("equipmentEvents"), types(message)[0], check(message, body), answer_on=replies, ident=ident)


def run(order):
    identified = {"JobOrderID": order}
    response = {"JobResponse": {"JobResponseID": "R-" + order, "JobOrderID": order, "JobResponseData": [{"ID": "pieces", "Value": 1}]}}
    tell(order, "station-Run", identified, lambda: tell(
        order, "station-ReceiveJobResponse", response, lambda: tell(order, "station-End", identified, lambda: None)))


def on_message(_client, _data, message):
    try:
        about = dict(message.properties.UserProperty)
        body = json.loads(message.payload)
        if message.topic == replies:
            assert check("StationMethodReply", body)["ReturnStatus"] == 1, (about, body)
            steps.pop(about["causationid"], lambda: None)()
            return
        assert about["type"] in types("StationCall"), about
        check("StationCall", body)
        publish(message.properties.ResponseTopic, about["type"], check("StationCallReply", {"ReturnStatus": 1}), cause=about["id"],
                correlation=getattr(message.properties, "CorrelationData", None))
        if "JobOrder" in body and about["id"] not in started:
            started.add(about["id"])
            run(body["JobOrder"]["JobOrderID"])
    except BaseException as error:  # paho would log it and go on
        print(repr(error), flush=True)
        sys.stdout.flush()
        raise SystemExit(1) from error


def on_subscribe(*_):
    print("ready", flush=True)


client = mqtt.Client("machine-" + scope, protocol=mqtt.MQTTv5)
client.on_message, client.on_subscribe = on_message, on_subscribe
client.connect("127.0.0.1", int(port))
client.subscribe([(address("equipmentCommands"), mqtt.SubscribeOptions(qos=1)), (replies, mqtt.SubscribeOptions(qos=1))])
client.loop_forever()
