/** Clients of other projects, each on a machine of its own. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { $ } from "bun";
import { GO_CACHE } from "../harness/go.ts";
import type { Machine } from "../harness/namespaces.ts";

export type Door = { url: string; token: string };

/** A program that runs until it is stopped. `said` is its last output. */
export type Client<Told = unknown> = { said(): Told | null; isRunning(): boolean; stop(): Promise<void> };

export type Counts = { state: string; video: number[]; audio: number[]; sent: number };

const AIORTC = join(import.meta.dir, "aiortc_client.py");
/** Debian's own, whatever other Python comes first on the PATH: aiortc is a package of the system's. */
const PYTHON = "/usr/bin/python3";

export function aiortc(machine: Machine, kind: "whip" | "whep", { url, token }: Door): Client<Counts> {
  return run<Counts>([...machine.prefix, PYTHON, AIORTC, kind, url, token], (line) => JSON.parse(line));
}

/** Debian's Go packages lie where it looks for them without modules; a module of its own lets it know their versions. */
const GO_PACKAGES = "/usr/share/gocode";

/** The client made of Pion, compiled from Debian's packages into `folder`. */
export async function buildPion(folder: string): Promise<string> {
  const program = join(folder, "pion");
  const source = join(folder, "go/src/pion-client");
  await Bun.write(join(source, "go.mod"), "module pion-client\n");
  await Bun.write(join(source, "main.go"), Bun.file(join(import.meta.dir, "pion_client.go")));
  const env = { ...process.env, GO111MODULE: "off", GOPATH: `${folder}/go:${GO_PACKAGES}`, GOCACHE: GO_CACHE };
  await $`go build -o ${program} .`.cwd(source).env(env).quiet();
  return program;
}

export type PionCounts = Counts & { pictures: number[] };

export function pion(program: string, machine: Machine, kind: "whip" | "whep", { url, token }: Door) {
  const encoder = `gst-launch-1.0 -q ${VIDEO} ! ${PACKETS_FOR_PION} ! rtpstreampay ! fdsink fd=1`;
  return run<PionCounts>([...machine.prefix, program, kind, url, token, encoder], (line) => JSON.parse(line));
}

const PACKETS_FOR_PION =
  "vp8enc deadline=1 cpu-used=8 target-bitrate=300000 keyframe-max-dist=30 ! rtpvp8pay pt=96 mtu=1200";
const VIDEO = "videotestsrc is-live=true pattern=ball ! video/x-raw,width=320,height=180,framerate=15/1";
const SOUND =
  "audiotestsrc is-live=true wave=pink-noise volume=0.1 ! audioconvert ! audioresample ! opusenc ! " +
  "rtpopuspay pt=100 ! application/x-rtp,media=audio,encoding-name=OPUS,payload=100";
const ENCODERS = {
  VP8: "vp8enc deadline=1 cpu-used=8 target-bitrate=300000 ! rtpvp8pay pt=96 ! application/x-rtp,media=video,encoding-name=VP8,payload=96",
  H264:
    "x264enc tune=zerolatency speed-preset=ultrafast bitrate=300 key-int-max=600 ! video/x-h264,profile=constrained-baseline ! " +
    "rtph264pay pt=97 aggregate-mode=zero-latency config-interval=-1 ! application/x-rtp,media=video,encoding-name=H264,payload=97",
};

/**
 * Debian's libnice brings libgupnp and with it another libsoup than the client's own, which ends the client at once. It
 * asks for UPnP and takes no for an answer.
 */
const NO_UPNP = `
void *gupnp_simple_igd_thread_new(void) { return 0; }
unsigned long gupnp_simple_igd_get_type(void) { return 0; }
void gupnp_simple_igd_add_port(void) {}
void gupnp_simple_igd_remove_port(void) {}
void gupnp_simple_igd_remove_port_local(void) {}
void gupnp_simple_igd_delete_all_mappings(void) {}
`;

async function withoutUpnp(folder: string): Promise<Record<string, string>> {
  const library = join(folder, "libgupnp-igd-1.0.so.4");
  if (!existsSync(library)) {
    await Bun.write(join(folder, "no-upnp.c"), NO_UPNP);
    await $`gcc -shared -fPIC -Wl,-soname,libgupnp-igd-1.0.so.4 -o ${library} ${join(folder, "no-upnp.c")}`.quiet();
  }
  return { LD_LIBRARY_PATH: folder };
}

/** GStreamer's webrtcbin over libnice: once media flows it sends few checks, or none. `folder` is for what it needs. */
export async function gstreamer(
  machine: Machine,
  codec: keyof typeof ENCODERS,
  { url, token }: Door,
  folder: string,
): Promise<Client> {
  const video = `${VIDEO} ! ${ENCODERS[codec]}`;
  return run(
    [...machine.prefix, "whip-client", "-u", url, "-t", token, "-A", SOUND, "-V", video, "-n", "-o", "-l", "4"],
    (line) => line,
    { settings: await withoutUpnp(folder), hasStarted: (line) => line.includes("PeerConnection connected") },
  );
}

type RunOptions = {
  settings?: Record<string, string>;
  /** Whether this output says that it is connected. A program that ends before is started again: whip-client does so now and then. */
  hasStarted?(line: string): boolean;
};

function run<Told>(
  command: string[],
  read: (line: string) => Told,
  { settings, hasStarted }: RunOptions = {},
): Client<Told> {
  const env = { ...process.env, ...settings };
  let said: Told | null = null;
  let isStopped = false;
  let isStarting = hasStarted !== undefined;
  const start = () => {
    const child = Bun.spawn(command, { env, stdout: "pipe", stderr: "ignore", stdin: "ignore" });
    void follow(child.stdout, (line) => {
      said = read(line);
      if (hasStarted?.(line)) isStarting = false;
    });
    void child.exited.then(() => {
      if (isStarting && !isStopped) running = start();
    });
    return child;
  };
  let running = start();
  return {
    said: () => said,
    isRunning: () => running.exitCode === null && running.signalCode === null,
    async stop() {
      isStopped = true;
      running.kill("SIGKILL");
      await running.exited;
    },
  };
}

async function follow(stream: ReadableStream<Uint8Array>, onLine: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.trim() !== "") onLine(line);
  }
}

/** Firefox listens for its driver on loopback only, and loopback is another one there. */
export async function tunnel(machine: Machine, url: string): Promise<{ url: string; stop(): Promise<void> }> {
  const { port } = new URL(url);
  const relay = [...machine.prefix, process.execPath, join(import.meta.dir, "relay.ts"), machine.address, port];
  const child = Bun.spawn(relay, { stdout: "pipe", stderr: "inherit" });
  await new Promise<string>((resolve) => void follow(child.stdout, resolve));
  return {
    url: `ws://${machine.address}:${port}`,
    async stop() {
      child.kill("SIGKILL");
      await child.exited;
    },
  };
}
