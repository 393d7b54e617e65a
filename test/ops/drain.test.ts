import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { PROGRAM, stoa } from "../cli/stoa.ts";
import { Upgradable } from "./upgradable.ts";

const host = new Upgradable();
const drain = (...args: string[]) => stoa(["drain", ...args, "--data-dir", host.dataDir]);
beforeAll(() => host.prepare());
afterEach(() => host.end());
afterAll(() => host.remove());

/** Waits until it has said that the node gets no new rooms. */
async function startWaiting(...args: string[]) {
  const command = [...PROGRAM, "drain", "local", "--wait", "--data-dir", host.dataDir, ...args];
  const child = Bun.spawn(command, { stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const reader = child.stdout.getReader();
  const said = new TextDecoder().decode((await reader.read()).value);
  expect(said).toBe("local gets no new rooms.\n");
  return { child, err: () => new Response(child.stderr).text() };
}

test("stoa drain sends a node no more rooms, waits until it has none, and takes that back", async () => {
  await host.start();
  const { roomId, ada, ben } = await host.call();
  expect(await drain("nowhere")).toMatchObject({
    code: 1,
    out: "",
    err: "stoa: there is no media node nowhere. The nodes are: local.\n",
  });
  expect(await drain("local")).toMatchObject({ code: 0, out: "local gets no new rooms.\n" });
  const { body: other } = await host.server.call("POST", "/v1/rooms", { name: "other" });
  await expect(host.member(other.id, "cyd")).rejects.toThrow("NO_RTC_CAPACITY");
  await ben.receives();
  expect(ben.of("bye")).toEqual([]);
  expect((await host.server.call("GET", `/v1/rooms/${roomId}`)).body.participantCount).toBe(2);

  let isEmpty = false;
  const waiting = drain("local", "--wait").finally(() => {
    isEmpty = true;
  });
  await ben.receives();
  expect(isEmpty).toBe(false);
  for (const one of [ada, ben]) await one.client.leave();
  expect(await waiting).toMatchObject({ code: 0, err: "", out: "local gets no new rooms.\nlocal has no rooms.\n" });
  expect(await drain("local", "--undo")).toMatchObject({ code: 0, out: "local gets new rooms again.\n" });
  await host.member(other.id, "cyd");
});

test("stoa drain --wait ends with Ctrl-C and when someone takes the draining back; the node is as it was left", async () => {
  await host.start();
  await host.call();
  const { body: other } = await host.server.call("POST", "/v1/rooms", { name: "other" });
  const first = await startWaiting();
  first.child.kill("SIGINT");
  await first.child.exited;
  expect(first.child.signalCode).toBe("SIGINT");
  await expect(host.member(other.id, "cyd")).rejects.toThrow("NO_RTC_CAPACITY");
  const second = await startWaiting();
  expect((await drain("local", "--undo")).code).toBe(0);
  expect(await second.child.exited).toBe(1);
  expect(await second.err()).toStartWith("stoa: local gets new rooms again");
  await host.member(other.id, "cyd");
  expect(await drain("local", "--undo", "--wait")).toMatchObject({ code: 2, out: "" });
});

test("stoa drain --wait also waits for the calls of the process before an upgrade", async () => {
  await host.start();
  const { ada, ben } = await host.call();
  expect((await host.upgrade()).code).toBe(0);
  const { child, err } = await startWaiting();
  const older = host.server.child;
  await Promise.race([child.exited, ben.receives()]);
  expect(child.exitCode).toBeNull();
  for (const one of [ada, ben]) {
    await one.resume();
    await one.client.leave();
  }
  expect([await child.exited, await err()]).toEqual([0, ""]);
  expect(older.exitCode).toBe(0);
});

test("stoa drain --wait fails when the node ends before its rooms have", async () => {
  const timeout = ["--sfu-heartbeat-timeout-seconds", "3"];
  await host.start(...timeout);
  await host.call();
  const { child, err } = await startWaiting(...timeout);
  host.server.child.kill("SIGKILL");
  expect(await child.exited).toBe(1);
  expect(await err()).toMatch(/^stoa: local has not reported since \S+: it has ended, or cannot reach the server\.\n$/);
});
