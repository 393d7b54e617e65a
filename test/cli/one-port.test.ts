import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ConfigError, loadConfig } from "../../src/kernel/config/index.ts";
import { CertificateRefused } from "../../src/kernel/http/serving/certificate.ts";
import { requireCertificates } from "../../src/network/tls/certificates.ts";
import { makeCertificate, makeExpiredCertificate } from "../ops/certificate.ts";
import { PROGRAM, startStoa, stoa } from "./stoa.ts";

/** The messages to an operator whose settings of the one port are wrong. */
const work = mkdtempSync(join(tmpdir(), "stoa-wrong-"));
let own: { cert: string; key: string };
let other: { cert: string; key: string };
let expired: { cert: string; key: string };

beforeAll(async () => {
  [own, other, expired] = await Promise.all([
    makeCertificate(work, "own"),
    makeCertificate(work, "other"),
    makeExpiredCertificate(work),
  ]);
});

afterAll(() => rmSync(work, { recursive: true, force: true }));

const DOMAIN = "rtc.example.com";
const folder = () => join(work, crypto.randomUUID());
const place = (dataDir: string) => ["--data-dir", dataDir, "--port", "0", "--media-udp-port", "0"];

/** The message of a start that fails before it writes anything. */
function saidOf(...options: string[]): string {
  const flags = Object.fromEntries(options.map((option) => option.split("=", 2) as [string, string]));
  try {
    requireCertificates(loadConfig({ flags, env: {} }).config);
    return "";
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.join(" ");
    if (error instanceof CertificateRefused) return error.message;
    throw error;
  }
}

test.each([
  "https://rtc.example.com",
  "rtc.example.com/rooms",
  "rtc.example.com:443",
  "192.0.2.1",
  "2001:db8::1",
  "rtc",
])("[22] %s is refused as a domain", (domain) => {
  expect(saidOf(`DOMAIN=${domain}`)).toContain("must be a domain name, such as rtc.example.com");
});

test("[22] a missing setting or unreadable file is reported", () => {
  const domain = `DOMAIN=${DOMAIN}`;
  const [empty, directory, absent] = ["empty.pem", "a directory", "absent.pem"].map((name) => join(work, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(empty, "");
  mkdirSync(directory);
  const authority = (file: string) => [domain, "ACME_DIRECTORY=https://ca.internal/directory", `ACME_CA=${file}`];
  const files = (cert: string, key: string) => [domain, `TLS_CERT=${cert}`, `TLS_KEY=${key}`];
  const cases: [string[], string][] = [
    [[domain, "TRUSTED_PROXIES=10.0.0.0/99"], "must be a list of IP addresses or CIDR ranges"],
    [[domain, `TLS_CERT=${own.cert}`], "TLS_CERT is set, but TLS_KEY is not."],
    [files(absent, own.key), `TLS_CERT: ${absent} cannot be read (ENOENT)`],
    [files(own.cert, directory), `TLS_KEY: ${directory} cannot be read (EISDIR)`],
    [files(empty, own.key), `${empty} is not valid PEM`],
    [files(own.cert, other.key), `${other.key} is not the key of ${own.cert}`],
    [authority(absent), `ACME_CA: ${absent} cannot be read (ENOENT)`],
    [authority(empty), `ACME_CA: ${empty} holds no PEM that can be read`],
    [[domain, "ACME_CHALLENGE=http-01", "HTTP_PORT=0"], "ACME_CHALLENGE is http-01, but HTTP_PORT is 0."],
    [["ACME_EMAIL=operator@example.com"], "ACME_EMAIL is set, but DOMAIN is not."],
    [["TURN_UDP_PORT=3478"], "TURN_UDP_PORT is set, but there is no relay without DOMAIN"],
    [[domain, "TURN_UDP_PORT=3478", "TURN=off"], "TURN_UDP_PORT is set, but TURN is off."],
  ];
  for (const [options, sentence] of cases) expect(saidOf(...options)).toContain(sentence);
  expect(saidOf(domain, "TURN_UDP_PORT=3478", "ACME_EMAIL=operator@example.com")).toBe("");
});

test("[22] a server that cannot start reports why without a stack trace, and leaves no files behind", async () => {
  const dataDir = folder();
  const files = ["--domain", DOMAIN, "--tls-cert", own.cert, "--tls-key", other.key];
  const { code, err } = await stoa(["serve", ...place(dataDir), ...files]);
  expect([code, existsSync(dataDir), err.includes("    at ")]).toEqual([2, false, false]);
  expect(err).toContain("is not the key of");
});

test("[22] a media node that cannot start reports why without a stack trace", async () => {
  const absent = join(work, "absent.pem");
  const { code, err } = await stoa(
    ["node", ...place(folder()), "--control-plane", "https://rtc.example.com", "--domain", "node.example.com"].concat([
      "--tls-cert",
      absent,
      "--tls-key",
      own.key,
    ]),
    { env: { SFU_REGISTRATION_SECRET: "a-secret-of-the-fleet" } },
  );
  expect([code, err.includes("    at ")]).toEqual([2, false]);
  expect(err).toContain(`TLS_CERT: ${absent} cannot be read (ENOENT)`);
});

test("[22] a port that is in use is reported, with the flag that chooses another", async () => {
  const tcp = Bun.listen({ hostname: "0.0.0.0", port: 0, socket: { data() {} } });
  const udp = await Bun.udpSocket({ hostname: "0.0.0.0", port: 0 });
  const files = ["--domain", DOMAIN, "--tls-cert", own.cert, "--tls-key", own.key];
  const start = (...ports: string[]) => stoa(["serve", ...place(folder()), ...files, ...ports]);
  const edge = await start("--edge-port", String(tcp.port));
  expect([edge.code, edge.err]).toEqual([
    1,
    expect.stringContaining(`port ${tcp.port} is taken. Choose another with --edge-port`),
  ]);
  const turn = await start("--edge-port", "0", "--turn-udp-port", String(udp.port));
  expect([turn.code, turn.err]).toEqual([
    1,
    expect.stringContaining(`port ${udp.port} is taken. Choose another with --turn-udp-port.`),
  ]);
  tcp.stop(true);
  udp.close();
}, 180_000);

/** The messages about the certificate of a server that starts, and then those of the doctor. */
async function doubts({ cert, key }: { cert: string; key: string }): Promise<[string, string]> {
  const dataDir = folder();
  const options = [...place(dataDir), "--domain", DOMAIN, "--edge-port", "0", "--tls-cert", cert, "--tls-key", key];
  const { out, child } = await startStoa([...PROGRAM, "serve", ...options], { env: { LOG_FORMAT: "json" } });
  child.kill();
  await child.exited;
  const { out: found } = await stoa(["doctor", "--json", ...options]);
  const checks = JSON.parse(found) as { name: string; status: string; detail: string }[];
  const { status, detail } = checks.find(({ name }) => name === "certificate") ?? {};
  const log = out + (await new Response(child.stderr).text());
  expect(log).toContain("clients will not trust the certificate");
  return [log, `${status}: ${detail}`];
}

test("[22] a certificate that clients will not trust is served, and reported in the log and by the doctor", async () => {
  const [late, lateCheck] = await doubts(expired);
  expect(late).toContain("it expired on 2020-02-01");
  expect(lateCheck).toStartWith("fail: it expired on 2020-02-01");
  const [foreign, foreignCheck] = await doubts(own);
  expect(foreign).toContain(`it is not for ${DOMAIN}, but for DNS:localhost`);
  expect(foreignCheck).toStartWith(`fail: it is not for ${DOMAIN}, but for DNS:localhost`);
}, 180_000);
