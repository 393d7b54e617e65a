/**
 * Prints `web/sdk/server/api.ts`, the typed methods of `stoa/server`, from the server's own OpenAPI document: every
 * route that an API key opens, whoever added it. Run `bin/bun bin/api-client.ts` after a change to the API.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createApp } from "../src/app.ts";
import { createReadiness } from "../src/kernel/http/health.ts";
import { closeRuntime, createRuntime } from "../src/kernel/runtime.ts";
import { createMediaNodes } from "../src/nodes/nodes.ts";
import { createServices } from "../src/services.ts";
import { testConfig } from "../test/harness/test-config.ts";
import { methodOf, RECORDS } from "./api-names.ts";
import { type JsonSchema, printType } from "./json-schema-type.ts";

const OUTFILE = join(import.meta.dir, "../web/sdk/server/api.ts");

type Operation = {
  summary?: string;
  security?: Record<string, unknown>[];
  parameters?: { name: string; in: string; required?: boolean; schema: JsonSchema }[];
  requestBody?: { required?: boolean; content: Record<string, { schema: JsonSchema }> };
  responses: Record<string, { content?: Record<string, { schema: JsonSchema }> }>;
};
type Document = { paths: Record<string, Record<string, Operation>> };

export async function readApi(): Promise<Document> {
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-api-"));
  const config = testConfig({ DATA_DIR: dataDir, LOG_LEVEL: "silent" });
  const runtime = createRuntime(config, { inMemory: true });
  try {
    const services = createServices(runtime, createMediaNodes(runtime.timers));
    const secrets = { sfuSecret: "unused", doctorSecret: "unused" };
    const app = createApp({ runtime, services, readiness: createReadiness(), ...secrets });
    const response = await app.handle(new Request("http://localhost/openapi.json"));
    return spelledOut(await response.json()) as Document;
  } finally {
    await closeRuntime(runtime);
    rmSync(dataDir, { recursive: true, force: true });
  }
}

/** Records stand where they are used: types are named here by their own rule. */
function spelledOut(document: { components: { schemas: Record<string, unknown> } }): unknown {
  const { schemas } = document.components;
  const spell = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(spell);
    if (value === null || typeof value !== "object") return value;
    const reference = (value as { $ref?: unknown }).$ref;
    if (typeof reference === "string") return spell(schemas[reference.split("/").at(-1) ?? ""]);
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, spell(item)]));
  };
  return spell(document);
}

export function printClient({ paths }: Document): string {
  const names = new Map<string, string>();
  const records: string[] = [];
  for (const [name, { route, part }] of Object.entries(RECORDS)) {
    const [method = "", path = ""] = route.split(" ");
    const answer = answerOf(paths[path]?.[method.toLowerCase()]);
    if (!answer) throw new Error(`${name}: there is no ${route} any more`);
    const type = printType(part(answer), names);
    records.push(`export type ${name} = ${type};\n`);
    names.set(type, name);
  }
  const groups = new Map<string, string[]>();
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      if (!operation.security?.some((kind) => "apiKey" in kind)) continue;
      const [group, name] = methodOf(method.toUpperCase(), path);
      groups.set(group, [
        ...(groups.get(group) ?? []),
        printMethod(name, method.toUpperCase(), path, operation, names),
      ]);
    }
  }
  const fields = [...groups].map(([group, methods]) => {
    const taken = methods.map((method) => /^ {4}(\w+): /m.exec(method)?.[1]);
    const twice = taken.find((name, index) => taken.indexOf(name) !== index);
    if (twice) throw new Error(`two routes are called ${group}.${twice}: name one of them in bin/api-names.ts`);
    return `  readonly ${group} = {\n${methods.join("")}  };\n`;
  });
  return [
    "// biome-ignore-all format: printed by bin/api-client.ts, as it comes\n",
    "// Printed from the API by bin/api-client.ts; a change made here is lost.\n",
    'import type { CallOptions } from "./request.ts";\n',
    'import { Routes } from "./routes.ts";\n\n',
    ...records,
    "\n/** One method for every route that an API key opens. */\n",
    `export class Api extends Routes {\n${fields.join("\n")}}\n`,
  ].join("");
}

function answerOf(operation: Operation | undefined): JsonSchema | undefined {
  const status = Object.keys(operation?.responses ?? {}).find((code) => code.startsWith("2") && code !== "204");
  return operation?.responses[status ?? ""]?.content?.["application/json"]?.schema;
}

function printMethod(name: string, method: string, path: string, operation: Operation, names: Map<string, string>) {
  const params = [...path.matchAll(/\{(\w+)\}/g)].map(([, param = ""]) => param);
  const query = (operation.parameters ?? []).filter((parameter) => parameter.in === "query");
  const body = operation.requestBody?.content["application/json"]?.schema;
  const answer = answerOf(operation);
  const type = answer ? printType(answer, names) : "void";
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
  if (method === "GET" && answer?.type === "array") {
    call = `this.list<${printType(answer.items ?? {}, names)}>(${template}, ${queried})`;
  } else if (method === "GET" && answer?.properties?.nextCursor) {
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
  const said = operation.summary ? `    /** ${operation.summary.replaceAll("*/", "")} */\n` : "";
  return `${said}    ${name}: (${inputs.join(", ")}) => ${call},\n`;
}

if (import.meta.main) await Bun.write(OUTFILE, printClient(await readApi()));
