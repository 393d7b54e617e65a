import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePorts } from "../../network/acme/pebble.ts";
import { makeCertificate } from "../../ops/certificate.ts";
import { loaded, openStage, type Stage } from "./stage.ts";

const folder = mkdtempSync(join(tmpdir(), "stoa-relay-only-"));
/** Nothing listens at this address, so media can arrive only through the relay. */
const UNREACHABLE_ADDRESS = "203.0.113.5";
let stage: Stage;
let home: string;

beforeAll(async () => {
  const files = await makeCertificate(folder, "localhost");
  const [edgePort = 0] = await freePorts(1);
  home = `https://127.0.0.1:${edgePort}`;
  const tls = { TLS_CERT: files.cert, TLS_KEY: files.key, EDGE_PORT: edgePort, PUBLIC_URL: home };
  stage = await openStage({ ...tls, PUBLIC_IP: [UNREACHABLE_ADDRESS] }, ["--ignore-certificate-errors"]);
}, 180_000);

afterAll(async () => {
  await stage?.close();
  rmSync(folder, { recursive: true, force: true });
});

test("[22] the connection test passes through port 443 alone, with media through the relay", async () => {
  const { page } = await stage.owner();
  await page.goto(`${home}/projects/${stage.server.projectId}/diagnostics`);
  await loaded(page);
  await page.getByLabel("Through port 443 only").check();
  await page.getByRole("button", { name: "Test this connection" }).click();
  await page.getByText("Calls work through port 443 alone.").waitFor({ timeout: 90_000 });
  const badges = page.locator(".checks-run .badge");
  expect(await badges.allInnerTexts()).toEqual(Array(6).fill("Passed"));
  await page.getByText("through the relay").waitFor();
}, 180_000);
