import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import type { CredentialKind } from "../../../src/kernel/http/guards.ts";
import { OIDC_CLIENT, oidcServer } from "../../harness/oidc.ts";
import { type Operation, operationsOf } from "../../harness/operations.ts";
import { rtcServer } from "../../harness/rtc.ts";
import { type Tenant, tenantOf } from "../../harness/tenant.ts";
import { createResponseCheck } from "./check-response.ts";
import { grantedRequests } from "./granted.ts";
import { spoiltRequests, validRequests } from "./requests.ts";
import { UNLIMITED } from "./unlimited.ts";

/** Requests per route, credential and kind; the seed repeats a run. `CONTRACT_RUNS=500 CONTRACT_SEED=7 bin/test contract`. */
const RUNS = Number(process.env.CONTRACT_RUNS ?? 12);
const SEED = Number(process.env.CONTRACT_SEED ?? 20_260_301);

const provider = await oidcServer(["http://localhost/oauth/acme/callback"]);
// Routes that compose are granted where ffmpeg is installed; this stand-in fails at once, as does ffmpeg for these files.
const programs = mkdtempSync(join(tmpdir(), "stoa-programs-"));
writeFileSync(join(programs, "ffmpeg"), "#!/bin/sh\nexit 1\n", { mode: 0o755 });
const PATH = process.env.PATH;
process.env.PATH = `${programs}:${PATH}`;
provider.people.set("ada", { email: "ada@example.com", email_verified: true, name: "Ada" });
const server = await rtcServer({ ...UNLIMITED, OAUTH: { acme: { issuer: provider.issuer, ...OIDC_CLIENT } } });
afterAll(async () => {
  await server.close();
  await provider.close();
  process.env.PATH = PATH;
  rmSync(programs, { recursive: true });
});
/** Routes of operators come last and share a tenant: a drained or invented node would get the rooms of new tenants. */
const isForOperators = ({ path }: Operation) => /^\/v1\/(rtc\/(servers|links)|cluster|audit-logs)/.test(path);
/** The sockets have their own fuzzers. */
const operations = (await operationsOf(server))
  .filter(({ responses }) => !responses.has(101))
  .sort((a, b) => Number(isForOperators(a)) - Number(isForOperators(b)));
const operator = await tenantOf(server, { operator: true });

const judge = createResponseCheck(server);
const granted = new Set<string>();

// Created first: after the fuzzing no media node accepts rooms.
const special = grantedRequests(server, await tenantOf(server), provider);
for (const [name, make] of Object.entries(special)) {
  test(`[10] ${name} keeps to the reference when it is granted`, async () => {
    const operation = operations.find((one) => one.name === name);
    if (!operation) throw new Error("there is no such route");
    const { credential, ...asked } = await make();
    const status = await judge(operation, credential, { path: [], query: [], body: undefined, headers: [], ...asked });
    expect(status).toBeLessThan(300);
    granted.add(name);
  });
}

/** A tenant that routes share until one of them has changed it. */
let intact: Tenant | undefined;
async function intactTenant(): Promise<Tenant> {
  intact ??= await tenantOf(server);
  return intact;
}

const KINDS = { "valid requests": validRequests, "spoilt requests": spoiltRequests };

for (const operation of operations) {
  const credentials: (CredentialKind | undefined)[] =
    operation.credentials.length > 0 ? operation.credentials : [undefined];
  test(`[10] ${operation.name} keeps to the reference, whatever it is asked`, async () => {
    for (const credential of credentials) {
      for (const [kind, requests] of Object.entries(KINDS)) {
        const tenant = isForOperators(operation) ? operator : await intactTenant();
        const property = fc.asyncProperty(requests(operation, tenant), async (asked) => {
          const status = await judge(operation, credential && tenant.credentials[credential], asked);
          if (status >= 400) return;
          granted.add(operation.name);
          if (operation.method !== "GET") intact = undefined;
        });
        const outcome = await fc.check(property, { numRuns: RUNS, seed: SEED, endOnFailure: true });
        if (outcome.failed)
          throw new Error(`${kind} by ${credential}: ${outcome.errorInstance}\n${fc.defaultReportMessage(outcome)}`);
      }
    }
  });
}

test("[10] the fuzzer reached every route with a valid credential", () => {
  // A route for operators belongs in isForOperators; one whose valid request no schema describes, in granted.ts.
  const missed = operations.map(({ name }) => name).filter((name) => !granted.has(name));
  expect(missed, "routes for isForOperators or granted.ts").toEqual([]);
});
