import { afterAll, afterEach, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLog } from "../../../src/kernel/log.ts";
import { openPort80 } from "../../../src/network/acme/port-80.ts";
import { AcmeStore } from "../../../src/network/acme/store.ts";
import { challengeCertificate } from "../../../src/network/acme/x509.ts";
import { createResolve, domainProblem } from "../../../src/network/tls/domain-check.ts";
import type { Check } from "../../../src/ops/doctor/check.ts";
import { stoa } from "../../cli/stoa.ts";
import { type RealServer, realServer } from "../../harness/real-server.ts";
import { freePorts } from "./pebble.ts";

const DOMAIN = "rtc.example.com";
const DAY_MS = 86_400_000;
const work = mkdtempSync(join(tmpdir(), "stoa-domain-"));
let server: RealServer | null = null;
afterEach(() => server?.close());
afterAll(() => rmSync(work, { recursive: true, force: true }));

const problem = (found: string[], announced: string[], own: string[]) =>
  domainProblem(DOMAIN, announced, { resolve: async () => found, own: () => own });

test("a domain resolves here when all its addresses are announced or this machine's", async () => {
  expect(await problem(["198.51.100.7"], ["198.51.100.7"], ["10.0.0.5"])).toBeNull();
  expect(await problem(["198.51.100.7", "2001:DB8::7"], ["2001:db8::7"], ["198.51.100.7"])).toBeNull();
  // Behind an unknown NAT the machine cannot know its public address.
  expect(await problem(["198.51.100.7"], ["10.0.0.5"], ["10.0.0.5", "127.0.0.1"])).toBeNull();
});

test("a machine in its own hosts file is looked up by name servers instead", async () => {
  const asked: string[] = [];
  const resolve = createResolve({
    lookUp: async () => ["127.0.1.1"],
    askNameServers: async (name) => {
      asked.push(name);
      return ["198.51.100.7"];
    },
  });
  const own = () => ["127.0.0.1", "198.51.100.7"];
  expect(await domainProblem(DOMAIN, [], { resolve, own })).toBeNull();
  expect(asked).toEqual([DOMAIN]);
  const unknown = createResolve({
    lookUp: async () => ["127.0.1.1"],
    askNameServers: () => Promise.reject({ code: "ENOTFOUND" }),
  });
  expect(await domainProblem(DOMAIN, [], { resolve: unknown, own })).toContain("cannot be resolved (ENOTFOUND)");
  // Another address in the hosts file is deliberate, and no name server is asked.
  const meant = createResolve({ lookUp: async () => ["198.51.100.7"], askNameServers: () => Promise.reject({}) });
  expect(await domainProblem(DOMAIN, [], { resolve: meant, own })).toBeNull();
});

test("an announced address is recognised in every notation", async () => {
  expect(await problem(["2001:db8::7"], ["2001:DB8:0:0::0007"], ["1.1.1.1"])).toBeNull();
});

test("a domain that resolves elsewhere or not at all is reported with the correction", async () => {
  expect(await problem(["8.8.8.8"], ["1.1.1.1"], ["10.0.0.5"])).toBe(
    `${DOMAIN} resolves to 8.8.8.8, which is no address of this machine (1.1.1.1). Correct its record, or name this machine's address in PUBLIC_IP.`,
  );
  // Authorities try AAAA first: one wrong record is enough.
  expect(await problem(["1.1.1.1", "2606:4700::1"], ["1.1.1.1"], [])).toContain("resolves to 2606:4700::1, which");
  const nowhere = domainProblem(DOMAIN, [], { resolve: () => Promise.reject({ code: "ENOTFOUND" }), own: () => [] });
  expect(await nowhere).toBe(`${DOMAIN} cannot be resolved (ENOTFOUND). Point its A or AAAA record at this machine.`);
});

test("[22] a server whose domain does not resolve reports it and orders no certificate from a public authority", async () => {
  const [EDGE_PORT = 0, HTTP_PORT = 0] = await freePorts(2);
  const dataDir = join(work, "nowhere");
  // The default authority is Let's Encrypt, and this kind of name never gets a certificate.
  server = await realServer({ DATA_DIR: dataDir, DOMAIN: "stoa.nowhere.invalid", EDGE_PORT, HTTP_PORT });
  const { url } = server;
  const asked = async () => JSON.stringify(await (await fetch(`${url}/readyz`)).json());
  while (!(await asked()).includes("cannot be resolved")) await Bun.sleep(50);
  expect(await asked()).toContain("stoa.nowhere.invalid cannot be resolved");
  // Neither an account nor an attempt was made.
  expect(existsSync(join(dataDir, "acme"))).toBe(false);
}, 60_000);

test("[22] an occupied port 80 is logged, and everything else works", async () => {
  const taken = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const lines: string[] = [];
  const log = createLog({ level: "info", format: "json", write: (line) => void lines.push(line) });
  const port80 = openPort80({ hostname: "127.0.0.1", port: taken.port, home: `https://${DOMAIN}`, log });
  expect(port80.port).toBeNull();
  expect(lines.join("")).toContain("no redirect and no http-01 challenge");
  port80.setProof("token", "proof");
  await port80.stop();
  taken.stop(true);
});

async function doctorOf(dataDir: string): Promise<Check | undefined> {
  const place = ["--domain", DOMAIN, "--data-dir", dataDir, "--port", "0", "--media-udp-port", "0"];
  const { out, err } = await stoa(["doctor", "--json", ...place]);
  if (out === "") throw new Error(err);
  return (JSON.parse(out) as Check[]).find(({ name }) => name === "certificate");
}

test("[22] the doctor reports a missing, unrenewed or expired certificate with the reason", async () => {
  const dataDir = join(work, "patient");
  const store = new AcmeStore(dataDir);
  const directory = "https://acme-v02.api.letsencrypt.org/directory";
  expect(await doctorOf(dataDir)).toMatchObject({ status: "fail", detail: `none for ${DOMAIN} yet` });
  const away = "The authority cannot be reached at acme-v02.api.letsencrypt.org: it is away";
  const notBefore = Date.now() + DAY_MS;
  store.saveCertificate(challengeCertificate(DOMAIN, "proof", Date.now()));
  store.saveAttempt({ domain: DOMAIN, directory, failures: 3, notBefore, problem: away, at: Date.now() });
  expect(await doctorOf(dataDir)).toMatchObject({
    status: "warn",
    detail: expect.stringContaining(`the last attempt failed: ${away}`),
    remedy: expect.stringContaining(new Date(notBefore).toISOString()),
  });
  store.saveCertificate(challengeCertificate(DOMAIN, "proof", Date.now() - 30 * DAY_MS));
  expect(await doctorOf(dataDir)).toMatchObject({
    status: "fail",
    detail: expect.stringMatching(/^it ran out (29|30) days ago; the last attempt failed: The authority/),
  });
}, 120_000);
