import { fillPath, type Operation } from "../../harness/operations.ts";
import type { TestServer } from "../../harness/server.ts";
import type { Asked } from "./requests.ts";
import { problemsOf } from "./schema-check.ts";

type ResponseCheck = (operation: Operation, credential: string | undefined, asked: Asked) => Promise<number>;

/** Sends a request, throws when the response is one that no route may give, and returns the status. */
export function createResponseCheck(server: TestServer): ResponseCheck {
  return async (operation, credential, asked) => {
    const { status, body, text, headers } = await ask(server, operation, credential, asked);
    const said = `${operation.name} answered ${status} ${text.slice(0, 300)}`;
    if (status >= 500 && status !== 503) throw new Error(said);
    if (!operation.responses.has(status)) throw new Error(`undocumented: ${said}`);
    const schema = operation.responses.get(status);
    const problems = schema ? problemsOf(text === "" ? undefined : JSON.parse(text), schema) : [];
    if (problems.length > 0) throw new Error(`${said}\n${problems.join("\n")}`);
    if (status === 204 && text !== "") throw new Error(`a body with 204: ${said}`);
    if (status >= 400 && body.requestId !== headers.get("x-request-id")) throw new Error(`no request id: ${said}`);
    return status;
  };
}

function ask(server: TestServer, operation: Operation, credential: string | undefined, asked: Asked) {
  const values = [...asked.path];
  const query = new URLSearchParams(asked.query);
  const path = `${fillPath(operation, () => values.shift() ?? "")}${query.size > 0 ? `?${query}` : ""}`;
  const { raw, contentType } = bodyOf(operation, asked);
  const headers = [...(raw === undefined ? [] : [["content-type", contentType]]), ...asked.headers];
  return server.call(operation.method, path, {
    key: credential,
    raw,
    headers: Object.fromEntries(headers.map(([name = "", value = ""]) => [name, toLatin1(value)])),
  });
}

function bodyOf(
  { method, bodyType }: Operation,
  { raw, body }: Asked,
): { raw: string | undefined; contentType: string } {
  const written = bodyType !== "application/json" && typeof body === "string" ? body : JSON.stringify(body);
  return { raw: method === "GET" ? undefined : (raw ?? written), contentType: bodyType };
}

/** The text as the bytes of a header. */
const toLatin1 = (text: string) => Buffer.from(text).toString("latin1");
