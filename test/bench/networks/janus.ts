/** Janus on a machine of a network call: a server that forwards what it gets, whatever the way to a viewer carries. */
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Host } from "../../e2e/networks/call.ts";
import type { Link } from "../../e2e/networks/link.ts";
import type { Machine } from "../../harness/namespaces.ts";
import { librariesOf } from "../harness/debian.ts";
import { unpackJanus } from "../sfu/janus.ts";
import { JanusSession } from "../sfu/janus-api.ts";
import { acceptAnswer, answerOffer, offerClouds } from "./janus-page.ts";

const PORT = 8188;
const ROOM = 1;
const FEED = 1;

/**
 * Packets leave by the device whose address they are sent from, regardless of routes: viewers know its address at the link only,
 * and the other way to them is closed.
 */
export async function startJanus(machine: Machine, work: string, link: Link): Promise<Host> {
  await machine.keepIn(`oifname "eth0" ip daddr ${link.farAddress} udp dport > 0 drop`);
  const root = await unpackJanus();
  const libraries = librariesOf(root);
  const folder = join(work, "janus");
  for (const kind of ["plugins", "transports"] as const) {
    const wanted = kind === "plugins" ? "libjanus_videoroom.so" : "libjanus_websockets.so";
    mkdirSync(join(folder, kind), { recursive: true });
    symlinkSync(join(libraries, "janus", kind, wanted), join(folder, kind, wanted));
  }
  writeFileSync(
    join(folder, "janus.jcfg"),
    `general: { configs_folder = "${folder}", plugins_folder = "${folder}/plugins", transports_folder = "${folder}/transports", debug_level = 1 }
nat: { ice_enforce_list = "${machine.address},${link.nearAddress}" }
`,
  );
  writeFileSync(
    join(folder, "janus.transport.websockets.jcfg"),
    `general: { json = "compact", ws = true, ws_port = ${PORT}, ws_ip = "${machine.address}", wss = false }
admin: { admin_ws = false, admin_wss = false }
`,
  );
  const program = [join(root, "usr/bin/janus"), "-F", folder, "-C", join(folder, "janus.jcfg")];
  const child = Bun.spawn([...machine.prefix, ...program], {
    env: { PATH: process.env.PATH, LD_LIBRARY_PATH: libraries },
    stdout: "ignore",
    stderr: "ignore",
  });
  const session = await opened(`ws://${machine.address}:${PORT}`);
  const room = { request: "create", room: ROOM, publishers: 1, videocodec: "vp8", audiocodec: "opus", bitrate: 0 };
  await session.message(await session.attach(), room);
  return {
    async publish(page, address) {
      const handle = await session.attach();
      const body = { request: "joinandconfigure", ptype: "publisher", room: ROOM, id: FEED, bitrate: 0 };
      const sdp = withAddress(await page.evaluate(offerClouds), address);
      const answer = await session.message(handle, body, { type: "offer", sdp });
      await page.evaluate(acceptAnswer, without(answer, link.nearAddress));
    },
    async watch(page, address) {
      const handle = await session.attach();
      const body = { request: "join", ptype: "subscriber", room: ROOM, streams: [{ feed: FEED }] };
      const offer = without(await session.message(handle, body), machine.address);
      const sdp = withAddress(await page.evaluate(answerOffer, offer), address);
      await session.message(handle, { request: "start" }, { type: "answer", sdp });
    },
    async stop() {
      session.close();
      child.kill();
      await child.exited;
    },
  };
}

/**
 * Browsers give a host name for their address, which cannot be resolved here. Without a candidate that it can use, Janus checks
 * none.
 */
function withAddress(sdp: string, address: string): string {
  return sdp.replace(/\b[\da-f-]+\.local\b/g, address);
}

/** Leaves out the candidates at this address. */
function without(sdp: string, address: string): string {
  return sdp.replace(/^a=candidate:.*\r\n/gm, (line) => (line.includes(` ${address} `) ? "" : line));
}

async function opened(url: string): Promise<JanusSession> {
  for (let i = 0; i < 100; i++) {
    const session = await JanusSession.open(url).catch(() => null);
    if (session) return session;
    await Bun.sleep(100);
  }
  throw new Error("Janus did not start");
}
