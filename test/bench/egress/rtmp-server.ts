/** An RTMP server that says when a flash and a beep arrive, and keeps what it got. */
import { createServer } from "node:net";

/** The left half of the composition: the sender of the flashes. */
const LEFT = "crop=iw/4:ih/8:iw/8:7*ih/16,scale=1:1,format=gray,fps=30";

export type RtmpServer = { url: string; flashes: number[]; path: string; stop(): Promise<void> };

export async function freePort(): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  const server = createServer().listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port));
  const port = await promise;
  await new Promise((closed) => server.close(closed));
  return port;
}

export async function startRtmpServer(path: string): Promise<RtmpServer> {
  const url = `rtmp://127.0.0.1:${await freePort()}/live/a-stream-key`;
  const flashes: number[] = [];
  const input = ["-fflags", "nobuffer", "-flags", "low_delay", "-analyzeduration", "0", "-probesize", "100000"];
  const child = Bun.spawn(
    [
      ...["ffmpeg", "-hide_banner", "-loglevel", "error", "-y", ...input, "-listen", "1", "-i", url],
      ...["-map", "0", "-c", "copy", path],
      ...["-map", "0:v", "-vf", LEFT, "-f", "rawvideo", "-flush_packets", "1", "pipe:1"],
    ],
    { stdin: "ignore", stdout: "pipe", stderr: "inherit" },
  );
  let isBright = true;
  void (async () => {
    for await (const chunk of child.stdout) {
      for (const value of chunk) {
        if (value > 128 && !isBright) flashes.push(Date.now());
        isBright = value > 128;
      }
    }
  })();
  return {
    url,
    flashes,
    path,
    async stop() {
      const timer = setTimeout(() => child.kill("SIGINT"), 5_000);
      await child.exited;
      clearTimeout(timer);
    },
  };
}
