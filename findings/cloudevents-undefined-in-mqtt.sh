#!/bin/sh
# An event of the CloudEvents SDK cannot be published by mqtt in binary mode as the SDK makes it.
#
# cloudevents 10.0.0: CloudEvent.toJSON and MQTT.binary have a member for each attribute that the standard names, also for those that the event does not have, with the value undefined. mqtt 5.16.0 takes the
# members as user properties and calls toString of each value, so publish throws a TypeError, after it has put the packet into its store. With the event made anew from its JSON text the members
# are gone, and the packet is written.
#
# Seen with Node.js 20.20.2; the packet goes to a stream in memory, no broker is needed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
printf '{"private": true, "type": "module", "dependencies": {"cloudevents": "10.0.0", "mqtt-packet": "9.0.2"}}' >package.json
npm install --ignore-scripts --no-audit --no-fund --silent
cat >publish.mjs <<'END'
import { PassThrough } from "node:stream";
import { CloudEvent, MQTT } from "cloudevents";
import packet from "mqtt-packet";

const event = new CloudEvent({ id: "1", source: "urn:a", type: "com.example.a", data: { a: 1 } });
const missing = (attributes) => Object.entries(attributes).filter(([, value]) => value === undefined).map(([name]) => name).sort().join(",");
function publish(userProperties) {
  try {
    packet.writeToStream({ cmd: "publish", topic: "a", payload: "{}", qos: 1, messageId: 1, properties: { userProperties } }, new PassThrough(), { protocolVersion: 5 });
    return "written";
  } catch (error) {
    return error.name;
  }
}
const { data, ...raw } = MQTT.binary(event)["User Properties"];
const { data: _, ...text } = JSON.parse(JSON.stringify(event));
console.log(`as made: undefined ${missing(raw)}: ${publish(raw)}; by way of text: undefined ${missing(text)}: ${publish(text)}`);
END
said=$(node publish.mjs)
echo "$said"
case $said in
*"as made: undefined "*dataschema*": TypeError; by way of text: undefined : written") ;;
*) exit 1 ;;
esac
