import { expect, test } from "bun:test";
import { createLog } from "../../../src/kernel/log.ts";
import { type AddressSource, mediaAddresses } from "../../../src/nodes/media-addresses.ts";
import { testConfig } from "../../harness/test-config.ts";

const log = createLog({ level: "silent", format: "json" });
const entry = (address: string, internal = false) =>
  ({ address, internal }) as ReturnType<AddressSource["interfaces"]>[string] extends (infer E)[] | undefined
    ? E
    : never;
const source: AddressSource = {
  interfaces: () => ({
    lo: [entry("127.0.0.1", true), entry("::1", true)],
    eth0: [entry("10.0.0.5"), entry("fe80::1"), entry("2001:db8::5")],
  }),
  resolve: async (name) => {
    if (name === "media.example.com") return ["203.0.113.9"];
    throw new Error("no such name");
  },
};
const addresses = (config: Parameters<typeof testConfig>[0]) => mediaAddresses(testConfig(config), log, source);

test("[11] auto announces the machine's addresses without loopback and link-local", async () => {
  expect(await addresses({ PUBLIC_IP: ["auto"], PUBLIC_URL: "https://rtc.example.com" })).toEqual({
    announce: ["10.0.0.5", "2001:db8::5"],
    hostname: "::",
  });
});

test("[11] a server for this machine alone works without a network", async () => {
  expect((await addresses({ PUBLIC_IP: ["auto"] })).announce[0]).toBe("127.0.0.1");
  const offline = { ...source, interfaces: () => ({ lo: [entry("127.0.0.1", true)] }) };
  expect(await mediaAddresses(testConfig({ PUBLIC_IP: ["auto"], HOST: "0.0.0.0" }), log, offline)).toEqual({
    announce: ["127.0.0.1"],
    hostname: "127.0.0.1",
  });
});

test("[11] listed addresses are announced, names are resolved, and an unknown name is skipped", async () => {
  expect(await addresses({ PUBLIC_IP: ["203.0.113.7", "media.example.com", "gone.example.com"] })).toEqual({
    announce: ["203.0.113.7", "203.0.113.9"],
    hostname: "0.0.0.0",
  });
  const both = await addresses({ PUBLIC_IP: ["203.0.113.7", "auto"], HOST: "0.0.0.0" });
  expect(both.announce).toEqual(["203.0.113.7", "10.0.0.5", "2001:db8::5"]);
});
