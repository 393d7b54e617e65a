import { afterAll, expect, test } from "bun:test";
import fc from "fast-check";
import type { CredentialKind } from "../../src/kernel/http/guards.ts";
import { fillPath, type Operation, operationsOf } from "../harness/operations.ts";
import { rtcServer } from "../harness/rtc.ts";
import { tenantOf } from "../harness/tenant.ts";
import { type Asked, spoiltRequests, validRequests } from "./requests.ts";
import { problemsOf } from "./schema-check.ts";
import { UNLIMITED } from "./unlimited.ts";

/** Requests per route, credential and kind; the seed repeats a run. `CONTRACT_RUNS=500 CONTRACT_SEED=7 bin/test contract`. */
const RUNS = Number(process.env.CONTRACT_RUNS ?? 12);
const SEED = Number(process.env.CONTRACT_SEED ?? 20_260_301);

const server = await rtcServer(UNLIMITED);
afterAll(server.close);
/** Routes of the fleet come last and share a tenant: a node that was drained or made up takes the rooms of new ones. */
const ofFleet = ({ path }: Operation) => path.startsWith("/v1/rtc/servers");
/** A socket's handshake is no request and answer; the sockets have fuzzers of their own. */
const operations = (await operationsOf(server))
  .filter(({ responses }) => !responses.has(101))
  .sort((a, b) => Number(ofFleet(a)) - Number(ofFleet(b)));
const operator = await tenantOf(server, { operator: true });

async function ask(operation: Operation, credential: string | undefined, asked: Asked) {
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

/** As bytes arrive in a header. */
const toLatin1 = (text: string) => Buffer.from(text).toString("latin1");

/** What no route may do, whatever it is asked. */
async function judge(operation: Operation, credential: string | undefined, asked: Asked): Promise<void> {
  const { status, body, text, headers } = await ask(operation, credential, asked);
  const said = `${operation.name} answered ${status} ${text.slice(0, 300)}`;
  if (status >= 500 && status !== 503) throw new Error(said);
  if (!operation.responses.has(status)) throw new Error(`undocumented: ${said}`);
  if (status < 400) granted.add(operation.name);
  const schema = operation.responses.get(status);
  const problems = schema ? problemsOf(text === "" ? undefined : JSON.parse(text), schema) : [];
  if (problems.length > 0) throw new Error(`${said}\n${problems.join("\n")}`);
  if (status === 204 && text !== "") throw new Error(`a body with 204: ${said}`);
  if (status >= 400 && body.requestId !== headers.get("x-request-id")) throw new Error(`no request id: ${said}`);
}

/** Routes whose every request is refused here: what they need lives outside, or comes by mail. */
const NEVER_GRANTED = [
  "POST /v1/auth/login",
  "POST /v1/auth/refresh",
  "POST /v1/auth/logout",
  "POST /v1/auth/verify-email",
  "POST /v1/auth/password-reset/confirm",
  "POST /v1/auth/oauth/{provider}/start",
  "POST /v1/auth/oauth/{provider}/exchange",
  "POST /v1/auth/password",
  "GET /v1/invitations/{token}",
  "POST /v1/invitations/{token}/accept",
  "PUT /v1/storage/{attachmentId}",
  "GET /v1/storage/{attachmentId}",
  "DELETE /whip/{roomId}/{sessionId}",
  "DELETE /whep/{roomId}/{sessionId}",
];
const granted = new Set<string>();

const KINDS = { "valid requests": validRequests, "spoilt requests": spoiltRequests };

for (const operation of operations) {
  const credentials: (CredentialKind | undefined)[] =
    operation.credentials.length > 0 ? operation.credentials : [undefined];
  test(`[10] ${operation.name} keeps to the reference, whatever it is asked`, async () => {
    for (const credential of credentials) {
      for (const [kind, requests] of Object.entries(KINDS)) {
        // Of its own: a route may end what it is called on.
        const tenant = ofFleet(operation) ? operator : await tenantOf(server);
        const property = fc.asyncProperty(requests(operation, tenant), (asked) =>
          judge(operation, credential && tenant.credentials[credential], asked),
        );
        const outcome = await fc.check(property, { numRuns: RUNS, seed: SEED, endOnFailure: true });
        if (outcome.failed)
          throw new Error(`${kind} by ${credential}: ${outcome.errorInstance}\n${fc.defaultReportMessage(outcome)}`);
      }
    }
  });
}

test("[10] whatever can be granted was granted at least once", () => {
  const refused = operations.map(({ name }) => name).filter((name) => !granted.has(name));
  expect(refused.sort()).toEqual(NEVER_GRANTED.sort());
});
