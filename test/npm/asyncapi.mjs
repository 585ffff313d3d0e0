// Checks schemas/asyncapi.yaml by the official parser, and compiles each schema by itself: the parser takes a schemaFormat that it does not know in silence, and then looks at no schema.
import { readFile, readdir } from "node:fs/promises";
import { Parser, fromFile } from "@asyncapi/parser";
import Ajv from "ajv";

const folder = process.argv[2];
const { document, diagnostics } = await fromFile(new Parser(), `${folder}/asyncapi.yaml`).parse();
const bad = diagnostics.filter((d) => d.severity < 2); // 0 error, 1 warning
for (const d of bad) console.error(`${d.path.join(".")}: ${d.message}`);

const ajv = new Ajv({ strict: true, allowUnionTypes: true });
const files = (await readdir(folder)).filter((name) => name.endsWith(".json"));
for (const name of files) ajv.addSchema(JSON.parse(await readFile(`${folder}/${name}`, "utf8")));

let payloads = 0;
for (const message of document?.allMessages() ?? []) {
  if (!message.hasPayload()) continue;
  payloads++;
  const { $id } = message.payload().json().schema;
  if (message.schemaFormat() !== "application/schema+json;version=draft-07") bad.push(`${message.name()}: schemaFormat ${message.schemaFormat()}`);
  if (!ajv.getSchema($id)) bad.push(`${message.name()}: schema ${$id} is in no file`); // getSchema compiles it
}
for (const name of files) ajv.getSchema(`https://github.com/taktworks/takt/schemas/${name}`);
console.log(`${files.length} schemas, ${document?.allMessages().length} messages, ${payloads} payloads, ${document?.allOperations().length} operations, ${bad.length} findings`);
process.exit(bad.length || !payloads ? 1 : 0);
