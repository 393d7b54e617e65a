import { afterEach, expect, test } from "bun:test";
import type { CertificateRenewal } from "../../../src/network/acme/renewal.ts";
import { type FakeClock, fakeClock } from "../../harness/clock.ts";
import { until } from "../tls/stage.ts";
import { afterwards, cleanUp, DOMAIN, stageWith } from "./stage.ts";

const HOUR_MS = 3_600_000;
const YEAR_MS = 365 * 24 * HOUR_MS;
afterEach(cleanUp);

const STEP_MS = 10_000;

/** Lets time pass until it holds, and returns how much. A request to the authority takes no time, a poll takes a step. */
async function pass(timers: FakeClock, holds: () => boolean): Promise<number> {
  const startedAt = timers.now();
  while (!holds()) {
    if (timers.pending() > 0) timers.advance(STEP_MS);
    await Bun.sleep(1);
  }
  return timers.now() - startedAt;
}

async function withCertificate() {
  const stage = await stageWith();
  // The machine's clock can be set; what waits goes by another one, as in any system.
  const timers = fakeClock();
  const renewal: CertificateRenewal = stage.keeper({ timers });
  afterwards(renewal.start());
  await pass(timers, () => renewal.certificate !== null && timers.pending() > 0);
  return { ...stage, timers, renewal };
}

test("a clock that jumps past the certificate's expiry leads to a renewal within the hour", async () => {
  const { clock, timers, renewal } = await withCertificate();
  const first = renewal.certificate;
  clock.set((renewal.status.expiresAt ?? 0) + 1);
  expect(renewal.certificate).toBe(first);
  const noticedMs = await pass(timers, () => renewal.certificate !== first);
  // An order is polled at most 60 times.
  expect(noticedMs).toBeLessThanOrEqual(HOUR_MS + 60 * STEP_MS);
}, 60_000);

test("a clock that is years ahead leads to one certificate, an explanation and growing delays", async () => {
  const { clock, timers, renewal, lines, keeper } = await withCertificate();
  clock.advance(20 * YEAR_MS);
  const obtained = () => lines.filter((line) => line.includes("certificate obtained")).length;
  const waits: number[] = [];
  for (let count = 2; count < 6; count++) {
    await pass(timers, () => obtained() === count && renewal.status.problem !== null && timers.pending() > 0);
    waits.push(Math.round(((renewal.status.nextAt ?? 0) - clock.now()) / 60_000));
    clock.set(renewal.status.nextAt ?? 0);
  }
  expect(waits).toEqual([1, 2, 4, 8]);
  expect(renewal.status.problem).toMatch(/^The clock of this machine says 20\d\d-.* Set it right\.$/);
  expect(lines.join("")).toContain("due for renewal already");
  expect(renewal.certificate).not.toBeNull();

  // Once it is right again, nothing of that is left, neither here nor after a restart.
  clock.set(Date.now());
  for (const one of [renewal, keeper()]) {
    expect(one.status.nextAt).toBeLessThan(one.status.expiresAt ?? 0);
    expect(one.status.nextAt).toBeGreaterThan(clock.now());
  }
}, 60_000);

test("an expired certificate is served rather than none, and renewed at the next start", async () => {
  const { clock, pebble, tls, keeper, renewal } = await withCertificate();
  await pebble.stop();
  clock.set((renewal.status.expiresAt ?? 0) + HOUR_MS);
  const second = keeper();
  expect(second.certificate).toEqual(renewal.certificate);
  expect(second.status.expiresAt).toBeLessThan(clock.now());
  const shown = (await tls.tls()).getPeerX509Certificate();
  expect(shown?.checkHost(DOMAIN)).toBe(DOMAIN);
  afterwards(second.start());
  await until(() => second.status.problem !== null);
  expect(second.status.problem).toContain("The authority cannot be reached");
  expect(second.certificate).toEqual(renewal.certificate);
}, 60_000);
