import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { librariesOf, unpackDebian } from "../harness/debian.ts";
import { ON_SERVER_SIDE, OWN_FOLDER, SERVER_ADDRESS } from "../harness/own-network.ts";
import { ended } from "../harness/processes.ts";
import { asDtlsClient, type Contestant, isPublisher } from "./contestant.ts";
import { JanusSession } from "./janus-api.ts";

const FIRST_PORT = 8188;
const ROOM = 1;
const FEED = 1;

export const unpackJanus = () => unpackDebian("janus", "usr/bin/janus");

/** Its default configuration, without the plugins that are not needed here. */
const settings = (folder: string, eventLoops: number) => `
general: {
  configs_folder = "${folder}"
  plugins_folder = "${folder}/plugins"
  transports_folder = "${folder}/transports"
  debug_level = 1
  ${eventLoops > 0 ? `event_loops = ${eventLoops}` : ""}
}
`;

const transport = (port: number) => `
general: { json = "compact", ws = true, ws_port = ${port}, ws_ip = "${SERVER_ADDRESS}", wss = false }
admin: { admin_ws = false, admin_wss = false }
`;

type Janus = { name: string; pid: number; session: JanusSession; stop(): Promise<void> };

/** Janus with its video room. `eventLoops`: threads for all participants together; 0 is its default, one for each. */
export async function startJanus(eventLoops: number): Promise<Janus> {
  const root = await unpackJanus();
  const libraries = librariesOf(root);
  const port = FIRST_PORT + eventLoops;
  const folder = mkdtempSync(join(OWN_FOLDER, "janus-"));
  for (const [kind, file] of [
    ["plugins", "libjanus_videoroom.so"],
    ["transports", "libjanus_websockets.so"],
  ] as const) {
    mkdirSync(join(folder, kind));
    symlinkSync(join(libraries, "janus", kind, file), join(folder, kind, file));
  }
  writeFileSync(join(folder, "janus.jcfg"), settings(folder, eventLoops));
  writeFileSync(join(folder, "janus.transport.websockets.jcfg"), transport(port));
  const program = [join(root, "usr/bin/janus"), "-F", folder, "-C", join(folder, "janus.jcfg")];
  const child = Bun.spawn([...ON_SERVER_SIDE, ...program], {
    env: { PATH: process.env.PATH, LD_LIBRARY_PATH: libraries },
    stdout: "ignore",
    stderr: "ignore",
  });
  const session = await opened(`ws://${SERVER_ADDRESS}:${port}`);
  return {
    name: eventLoops > 0 ? `Janus (${eventLoops} event loop${eventLoops > 1 ? "s" : ""})` : "Janus",
    pid: child.pid,
    session,
    async stop() {
      session.close();
      child.kill();
      await ended(child);
    },
  };
}

export async function janus(eventLoops: number): Promise<Contestant> {
  const { session, name, pid, stop } = await startJanus(eventLoops);
  const handle = await session.attach();
  await session.message(handle, {
    request: "create",
    room: ROOM,
    publishers: 1,
    videocodec: "vp8",
    audiocodec: "opus",
  });
  return {
    name,
    pid,
    admit: () => Promise.resolve(),
    published: () => Promise.resolve([]),
    async negotiate(request) {
      const own = await session.attach();
      const offer = asDtlsClient(request.sdp);
      if (isPublisher(request)) {
        const body = { request: "joinandconfigure", ptype: "publisher", room: ROOM, id: FEED, bitrate: 0 };
        return { sdp: await session.message(own, body, { type: "offer", sdp: offer }), tracks: [] };
      }
      const body = { request: "join", ptype: "subscriber", room: ROOM, streams: [{ feed: FEED }] };
      const theirs = await session.message(own, body);
      await session.message(own, { request: "start" }, { type: "answer", sdp: answerTo(theirs, offer) });
      return { sdp: theirs, tracks: [] };
    },
    stop,
  };
}

/** With Janus it is the server that offers to a viewer: all of it is taken, with the transport of the viewer's own offer. */
export function answerTo(theirs: string, own: string): string {
  const transportLines = ["ice-ufrag", "ice-pwd", "fingerprint", "setup", "candidate"].map(
    (name) => own.match(new RegExp(`^a=${name}:.*$`, "m"))?.[0] ?? "",
  );
  const [head = "", ...sections] = theirs.split(/^(?=m=)/m);
  const session = head.split("\r\n").filter((line) => /^(v=|o=|s=|t=|a=group:)/.test(line));
  const answered = sections.flatMap((section) => {
    const lines = section.split("\r\n");
    const kept = lines.filter(
      (line) => /^a=(mid|rtpmap|fmtp|rtcp-fb|extmap):/.test(line) && !/transport-(cc|wide-cc)/.test(line),
    );
    return [lines[0] ?? "", "c=IN IP4 0.0.0.0", "a=recvonly", "a=rtcp-mux", ...transportLines, ...kept];
  });
  return `${[...session, ...answered].join("\r\n")}\r\n`;
}

async function opened(url: string): Promise<JanusSession> {
  for (let i = 0; i < 100; i++) {
    const session = await JanusSession.open(url).catch(() => null);
    if (session) return session;
    await Bun.sleep(100);
  }
  throw new Error("Janus did not start");
}
