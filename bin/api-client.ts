/**
 * Generates `web/sdk/server/api.ts`, the typed methods of `stoa/server`, from the server's OpenAPI document: one method
 * for every route that accepts an API key. Run `bin/bun bin/api-client.ts` after a change to the API.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createApp } from "../src/app.ts";
import { createReadiness } from "../src/kernel/http/health.ts";
import { closeRuntime, createRuntime } from "../src/kernel/runtime.ts";
import { createMediaNodes } from "../src/nodes/media-nodes.ts";
import { createServices } from "../src/services.ts";
import { testConfig } from "../test/harness/test-config.ts";
import { methodOf } from "./api-names.ts";
import { type JsonSchema, printType } from "./json-schema-type.ts";

const OUTFILE = join(import.meta.dir, "../web/sdk/server/api.ts");

type Operation = {
  summary?: string;
  security?: Record<string, unknown>[];
  parameters?: { name: string; in: string; required?: boolean; schema: JsonSchema }[];
  requestBody?: { required?: boolean; content: Record<string, { schema: JsonSchema }> };
  responses: Record<string, { content?: Record<string, { schema: JsonSchema }> }>;
};
type Document = {
  paths: Record<string, Record<string, Operation>>;
  webhooks: Record<string, { post: Operation }>;
  /** The schemas that responses and webhooks consist of, by name; a schema comes before those that contain it. */
  records: Map<string, JsonSchema>;
};
type Described = Omit<Document, "records"> & { components: { schemas: Record<string, unknown> } };

export async function readApi(): Promise<Document> {
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-api-"));
  const config = testConfig({ DATA_DIR: dataDir, LOG_LEVEL: "silent" });
  const runtime = createRuntime(config, { inMemory: true });
  try {
    const services = createServices(runtime, createMediaNodes(runtime.timers));
    const secrets = { sfuSecret: "unused", doctorSecret: "unused" };
    const app = createApp({ runtime, services, readiness: createReadiness(), ...secrets });
    const response = await app.handle(new Request("http://localhost/openapi.json"));
    return withoutReferences((await response.json()) as Described);
  } finally {
    await closeRuntime(runtime);
    rmSync(dataDir, { recursive: true, force: true });
  }
}

/** Inlines all references and collects the records that they name. */
function withoutReferences({ paths, webhooks, components: { schemas } }: Described): Document {
  const records = new Map<string, JsonSchema>();
  const inline = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(inline);
    if (value === null || typeof value !== "object") return value;
    const reference = (value as { $ref?: unknown }).$ref;
    if (typeof reference !== "string") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, inline(item)]));
    }
    const name = reference.split("/").at(-1) ?? "";
    const record = inline(schemas[name]) as JsonSchema;
    records.set(name, record);
    return record;
  };
  const inlined = { paths: inline(paths), webhooks: inline(webhooks) } as Pick<Document, "paths" | "webhooks">;
  records.clear();
  for (const verbs of Object.values(paths)) {
    for (const operation of Object.values(verbs)) if (acceptsApiKey(operation)) inline(successOf(operation));
  }
  inline(webhooks);
  return { ...inlined, records };
}

const acceptsApiKey = ({ security }: Operation) => security?.some((kind) => "apiKey" in kind) ?? false;

/** The type of every webhook event, by its own type. */
function printWebhookData(webhooks: Document["webhooks"], names: ReadonlyMap<string, string>): string {
  const types = Object.entries(webhooks).map(([type, { post }]) => {
    const data = post.requestBody?.content["application/json"]?.schema.properties?.data;
    return `  /** ${post.summary} */\n  ${JSON.stringify(type)}: ${printType(data ?? {}, names)};\n`;
  });
  return `/** The \`data\` of a webhook event, by its type. */\nexport type WebhookEventData = {\n${types.join("")}};\n`;
}

export function printClient({ paths, webhooks, records }: Document): string {
  const names = new Map<string, string>();
  const types: string[] = [];
  for (const [name, schema] of records) {
    const type = printType(schema, names);
    types.push(`export type ${name} = ${type};\n`);
    names.set(type, name);
  }
  const groups = new Map<string, string[]>();
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      if (!acceptsApiKey(operation)) continue;
      const [group, name] = methodOf(method.toUpperCase(), path);
      groups.set(group, [
        ...(groups.get(group) ?? []),
        printMethod(name, method.toUpperCase(), path, operation, names),
      ]);
    }
  }
  const fields = [...groups].map(([group, methods]) => {
    const methodNames = methods.map((method) => /^ {4}(\w+): /m.exec(method)?.[1]);
    const duplicate = methodNames.find((name, index) => methodNames.indexOf(name) !== index);
    if (duplicate)
      throw new Error(`two routes have the name ${group}.${duplicate}: rename one of them in bin/api-names.ts`);
    return `  readonly ${group} = {\n${methods.join("")}  };\n`;
  });
  return [
    "// biome-ignore-all format: generated by bin/api-client.ts\n",
    "// Generated from the API by bin/api-client.ts; do not edit.\n",
    'import type { CallOptions } from "./request.ts";\n',
    'import { Routes } from "./routes.ts";\n\n',
    ...types,
    "\n",
    printWebhookData(webhooks, names),
    "\n/** One method for every route that accepts an API key. */\n",
    `export class Api extends Routes {\n${fields.join("\n")}}\n`,
  ].join("");
}

function successOf({ responses }: Operation): Operation["responses"][string] | undefined {
  return responses[Object.keys(responses).find((code) => code.startsWith("2") && code !== "204") ?? ""];
}

function responseSchemaOf(operation: Operation): JsonSchema | undefined {
  return successOf(operation)?.content?.["application/json"]?.schema;
}

function printMethod(name: string, method: string, path: string, operation: Operation, names: Map<string, string>) {
  const params = [...path.matchAll(/\{(\w+)\}/g)].map(([, param = ""]) => param);
  const query = (operation.parameters ?? []).filter((parameter) => parameter.in === "query");
  const body = operation.requestBody?.content["application/json"]?.schema;
  const response = responseSchemaOf(operation);
  const type = response ? printType(response, names) : "void";
  const template = `\`${path.replace(/\{(\w+)\}/g, (_, param) => `\${this.seg(${param})}`)}\``;

  const inputs = params.map((param) => `${param}: string`);
  if (body) {
    const optional = operation.requestBody?.required === false || (body.required ?? []).length === 0;
    inputs.push(`body: ${printType(body, names)}${optional ? " = {}" : ""}`);
  }
  if (query.length > 0) {
    const properties = Object.fromEntries(query.map(({ name, schema }) => [name, schema]));
    const required = query.filter((parameter) => parameter.required).map((parameter) => parameter.name);
    inputs.push(
      `query: ${printType({ type: "object", properties, required }, names)}${required.length ? "" : " = {}"}`,
    );
  }
  const queried = query.length > 0 ? "query" : "{}";
  let call: string;
  if (method === "GET" && response?.type === "array") {
    call = `this.list<${printType(response.items ?? {}, names)}>(${template}, ${queried})`;
  } else if (method === "GET" && response?.properties?.nextCursor) {
    call = `this.history<${type}>(${template}, ${queried})`;
  } else {
    const options = method === "POST" ? ["options: CallOptions = {}"] : [];
    inputs.push(...options);
    const sent = [
      `"${method}"`,
      template,
      body ? "body" : "undefined",
      queried,
      ...(options.length ? ["options"] : []),
    ];
    call = `this.call<${type}>(${sent.join(", ")})`;
  }
  const comment = operation.summary ? `    /** ${operation.summary.replaceAll("*/", "")} */\n` : "";
  return `${comment}    ${name}: (${inputs.join(", ")}) => ${call},\n`;
}

if (import.meta.main) await Bun.write(OUTFILE, printClient(await readApi()));
