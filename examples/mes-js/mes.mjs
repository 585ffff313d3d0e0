#!/usr/bin/env node
// An MES in JavaScript that knows Takt by its documents alone: topics and types are those of schemas/asyncapi.yaml, and every body is checked against its schema.
//
//   node mes.mjs --schemas schemas --url mqtt://127.0.0.1:1883 --prefix takt --scope press-7 --orders 10
//
// It orders job orders (StoreAndStart), watches the retained results, takes each once, and clears it. A request is repeated under its id until it is answered.
// Packages: test/npm/package.json.
import { readFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { Parser, fromFile } from "@asyncapi/parser";
import Ajv from "ajv";
import { CloudEvent, MQTT } from "cloudevents";
import mqtt from "mqtt";

const { values: flags } = parseArgs({
  options: {
    schemas: { type: "string", default: "schemas" },
    url: { type: "string", default: "mqtt://127.0.0.1:1883" },
    prefix: { type: "string", default: "takt" },
    scope: { type: "string" },
    orders: { type: "string", default: "10" },
    name: { type: "string", default: "js" },
  },
});
const orders = Number(flags.orders);
const underWay = 100; // orders without a result
const repeatAfter = 5000; // milliseconds
const client = `mes-${flags.name}`;
const answers = `mes/responses/${client}`;

const { document } = await fromFile(new Parser(), `${flags.schemas}/asyncapi.yaml`).parse();
const ajv = new Ajv({ strict: true, allowUnionTypes: true });
const checks = new Map(); // message name -> function
for (const message of document.allMessages()) {
  const file = message.hasPayload() && message.payload().json().schema.$id.split("/").pop();
  if (file && !checks.has(file)) checks.set(file, ajv.compile(JSON.parse(await readFile(`${flags.schemas}/${file}`, "utf8"))));
  if (file) checks.set(message.name(), checks.get(file));
}
const messages = new Map(document.allMessages().all().map((m) => [m.name(), m]));
const topic = (channel, id = "+") =>
  document.channels().get(channel).address().replace("{prefix}", flags.prefix).replace("{scope}", flags.scope).replace("{id}", id);
const typeOf = (name) => messages.get(name).headers().json().allOf[1].properties.type.enum[0];

let documents = 0;
function check(name, body) {
  const ok = checks.get(name);
  documents++;
  if (!ok(body)) throw new Error(`${name}: ${ajv.errorsText(ok.errors)}: ${JSON.stringify(body)}`);
  return body;
}

const connection = await mqtt.connectAsync(flags.url, { clientId: client, protocolVersion: 5, clean: true });
const waiting = new Map(); // id of a request -> function that takes the reply
const taken = new Map(); // JobOrderID -> done
const events = new Map(); // JobOrderID -> its status events so far
let finished, failed;
const end = new Promise((resolve, reject) => ([finished, failed] = [resolve, reject]));

// eventOf reads a message in binary mode: MQTT.toEvent wants the user properties as headers, and a body that is text or an object, not the bytes that came.
function eventOf(packet, payload) {
  const text = payload.toString();
  return MQTT.toEvent({ PUBLISH: { "Content Type": packet.properties.contentType }, headers: packet.properties.userProperties, body: text && JSON.parse(text) });
}

async function request(name, reply, body) {
  const event = new CloudEvent({ type: typeOf(name), source: `urn:${client}`, subject: flags.scope, datacontenttype: "application/json", data: check(name, body) });
  const { datacontenttype, data, ...attributes } = JSON.parse(JSON.stringify(event)); // by way of text: user properties may not be undefined
  const options = { qos: 1, properties: { contentType: datacontenttype, responseTopic: answers, correlationData: Buffer.from(event.id), userProperties: attributes } };
  const answered = new Promise((resolve) => waiting.set(event.id, resolve));
  const send = () => connection.publish(topic("commands"), JSON.stringify(data), options, (err) => err && console.error(`${event.id}: ${err.message}; it is sent again`));
  const timer = setInterval(send, repeatAfter);
  send();
  const answer = await answered;
  clearInterval(timer);
  waiting.delete(event.id);
  if (answer.mdcserrorkind === "SERVICE_UNAVAILABLE") throw new Error(answer.mdcserrormessage);
  return check(reply, answer.data).ReturnStatus;
}

async function take(id) {
  if (taken.has(id)) return;
  taken.set(id, false);
  const status = await request("Clear", "JobMethodReply", { JobOrderID: id });
  if (status !== 1) throw new Error(`Clear ${id}: ReturnStatus ${status}`);
  taken.set(id, true);
  orderNext();
  if ([...taken.values()].filter(Boolean).length === orders) finished();
}

let sent = 0;
async function orderNext() {
  if (sent === orders) return;
  const id = `JS-${flags.name}-${++sent}`;
  const status = await request("StoreAndStart", "JobMethodReply", { JobOrder: { JobOrderID: id, Priority: sent % 10 } });
  if (status !== 1) throw new Error(`StoreAndStart ${id}: ReturnStatus ${status}`);
}

connection.on("message", (name, payload, packet) => {
  Promise.resolve()
    .then(() => {
      if (name === answers) {
        const event = eventOf(packet, payload);
        waiting.get(event.causationid)?.(event);
      } else if (name === topic("events")) {
        const event = eventOf(packet, payload);
        if (event.type !== typeOf("StatusEvent")) return;
        const { JobOrder } = check("StatusEvent", event.data);
        events.set(JobOrder.JobOrderID, (events.get(JobOrder.JobOrderID) ?? 0) + 1);
      } else if (payload.length === 0) {
        return; // a retained document was deleted
      } else if (name === topic("stateIndex")) {
        check("StateIndex", JSON.parse(payload.toString()));
      } else if (name.startsWith(topic("order", ""))) {
        check("JobOrder", JSON.parse(payload.toString()));
      } else if (name.startsWith(topic("result", ""))) {
        return take(check("JobResponse", JSON.parse(payload.toString())).JobOrderID);
      }
    })
    .catch(failed);
});
await connection.subscribeAsync([answers, topic("events"), topic("stateIndex"), topic("order"), topic("result")], { qos: 1 });
for (let i = 0; i < Math.min(underWay, orders); i++) orderNext().catch(failed);
await end;
await connection.endAsync();
console.log(JSON.stringify({ orders: taken.size, documents, events: [...events.values()].reduce((a, b) => a + b, 0) }));
