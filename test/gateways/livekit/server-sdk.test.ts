import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type ServerProcess, startServer } from "../../e2e/sdk/server-process.ts";
import { RawClient } from "./harness/raw-client.ts";
import { type StageBeside, stageBeside } from "./harness/stage.ts";

const GUIDE = join(import.meta.dir, "../../../web/docs/livekit.md");
const ROOM = "every method";

// biome-ignore lint/suspicious/noExplicitAny: the methods of a stock package, called by name
type Client = any;

let server: ServerProcess;
let stage: StageBeside;
let sdk: Record<string, Client>;
beforeAll(async () => {
  server = await startServer({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 10_000 });
  stage = await stageBeside(server);
  sdk = await import(join(stage.packages, "livekit-server-sdk"));
}, 120_000);
afterAll(async () => {
  await stage?.close();
  await server?.close();
});

/** Helpers of the package that send nothing. */
const LOCAL = new Set([
  "isEncodedOutputs",
  "isEncodedFileOutput",
  "isSegmentedFileOutput",
  "isStreamOutput",
  "getOutputParams",
]);

/** The arguments of methods that want more than names. */
const argumentsOf = (dispatchId: string): Record<string, unknown[]> => ({
  createRoom: [{ name: ROOM, metadata: "m", maxParticipants: 9, emptyTimeout: 60, departureTimeout: 30 }],
  listRooms: [[ROOM]],
  getParticipant: [ROOM, "ann"],
  listParticipants: [ROOM],
  updateRoomMetadata: [ROOM, "new"],
  updateParticipant: [ROOM, "ann", { name: "Ann" }],
  updateSubscriptions: [ROOM, "ann", ["TR_x"], false],
  sendData: [ROOM, new Uint8Array([0xff, 0]), 1, { destinationIdentities: ["ann"] }],
  moveParticipant: [ROOM, "mia", "another"],
  forwardParticipant: [ROOM, "ann", "a third"],
  mutePublishedTrack: [ROOM, "ann", "TR_none", true],
  removeParticipant: [ROOM, "ann"],
  deleteRoom: [ROOM],
  createDispatch: [ROOM, "helper"],
  getDispatch: [dispatchId, ROOM],
  listDispatch: [ROOM],
  deleteDispatch: [dispatchId, ROOM],
  startRoomCompositeEgress: [ROOM, { file: { filepath: "x.mp4" } }],
  startWebEgress: ["https://example.com", { file: { filepath: "x.mp4" } }],
  startParticipantEgress: [ROOM, "ann", { file: { filepath: "y.mp4" } }],
  startTrackCompositeEgress: [ROOM, { file: { filepath: "z.mp4" } }, { audioTrackId: "TR_x" }],
  startTrackEgress: [ROOM, { filepath: "x.mp4" }, "TR_x"],
  startEgress: [{ toJson: () => ({}) }],
  updateLayout: ["EG_x", "grid"],
  updateStream: ["EG_x", [], []],
  listEgress: [],
  stopEgress: ["EG_x"],
  createIngress: [1, { name: "n", roomName: ROOM, participantIdentity: "i" }],
  updateIngress: ["IN_x", { name: "n" }],
  createSipInboundTrunk: ["n", ["+1"]],
  createSipOutboundTrunk: ["n", "a", ["+1"]],
  createSipDispatchRule: [{ type: "direct", roomName: ROOM, pin: "" }],
  updateSipDispatchRule: ["x", {}],
  updateSipDispatchRuleFields: ["x", {}],
  updateSipInboundTrunk: ["x", {}],
  updateSipInboundTrunkFields: ["x", {}],
  updateSipOutboundTrunk: ["x", {}],
  updateSipOutboundTrunkFields: ["x", {}],
  createSipParticipant: ["x", "+1", ROOM],
  transferSipParticipant: [ROOM, "ann", "tel:+1"],
  dialWhatsAppCall: [{}],
  acceptWhatsAppCall: [{}],
  connectWhatsAppCall: ["x", {}],
  disconnectWhatsAppCall: ["x", "y"],
  connectTwilioCall: [{}],
});

const FINDS_NOTHING = new Set([
  "updateIngress",
  "deleteIngress",
  "mutePublishedTrack",
  "startTrackEgress",
  "startTrackCompositeEgress",
  "updateLayout",
  "updateStream",
  "stopEgress",
]);

/** Methods that need a room and a participant come before those that end them. */
const LAST = ["mutePublishedTrack", "deleteDispatch", "removeParticipant", "deleteRoom"];

async function outcome(client: Client, method: string, args: unknown[]): Promise<string> {
  try {
    await client[method](...args);
    return "works";
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === "unimplemented") return "`unimplemented`";
    // The method looked for the track, the egress or the ingress, which does not exist.
    if (FINDS_NOTHING.has(method) && code === "not_found") return "works";
    // The room is there, and only the program is missing.
    if (String(error).includes("need ffmpeg")) return "works";
    throw new Error(`${method}: ${String(error)} (${code})`);
  }
}

/** `WRITE_GUIDE=1 bin/test livekit/server-sdk` writes the table, for a newer package or a method that is new here. */
test("every method of livekit-server-sdk works with Stoa or is unimplemented, as the table of the guide says", async () => {
  const { apiKey, apiSecret } = stage;
  await stage.rooms.createRoom({ name: ROOM });
  const ann = await RawClient.open(stage.wsUrl, await stage.token(ROOM, "ann"));
  await ann.hears("join");
  const mia = await RawClient.open(stage.wsUrl, await stage.token(ROOM, "mia"));
  await mia.hears("join");
  const { id } = await stage.dispatches.createDispatch(ROOM, "first");
  const args = argumentsOf(id);
  const clients = Object.keys(sdk).filter((name) => name.endsWith("Client"));
  const methods = clients.flatMap((name) =>
    Object.getOwnPropertyNames(sdk[name].prototype)
      .filter((method) => method !== "constructor" && !LOCAL.has(method))
      .map((method) => ({ name, method })),
  );
  expect(methods.length).toBeGreaterThan(50);
  const order = ({ method }: { method: string }) => LAST.indexOf(method);
  const results = new Map<string, string>();
  for (const { name, method } of methods.toSorted((a, b) => order(a) - order(b))) {
    const client = new sdk[name](server.url, apiKey, apiSecret);
    results.set(`${name}.${method}`, await outcome(client, method, args[method] ?? [ROOM, "ann", "z"]));
  }
  const rows = clients.toSorted().flatMap((name) =>
    ["works", "`unimplemented`"].flatMap((result) => {
      const found = methods.filter((one) => one.name === name && results.get(`${name}.${one.method}`) === result);
      return found.length === 0 ? [] : [`| \`${name}\` | ${result} | ${found.map((one) => one.method).join(", ")} |`];
    }),
  );
  const table = ["| Client | Result | Methods |", "| --- | --- | --- |", ...rows].join("\n");
  const guide = readFileSync(GUIDE, "utf8");
  if (process.env.WRITE_GUIDE)
    writeFileSync(
      GUIDE,
      guide.replace(/^\| Client \| Result [\s\S]*?(?=\n\n)/m, () => table),
    );
  else expect(guide).toContain(table);
  ann.close();
  mia.close();
}, 60_000);
