import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { captionOf } from "../../../src/features/recordings/composition/captions.ts";
import { compositionCommand } from "../../../src/features/recordings/composition/command.ts";
import { gridOf } from "../../../src/features/recordings/composition/layout.ts";
import { stageSchedule, tileKeyOf } from "../../../src/features/recordings/composition/stage.ts";
import type { Recording } from "../../../src/protocol/recordings.ts";
import { rtcServer } from "../../harness/rtc.ts";
import { encoded, probe } from "./ffmpeg.ts";

// The default is a path relative to the server's working directory, which is not ffmpeg's.
const dataDir = mkdtempSync(join(tmpdir(), "stoa-composition-"));
const server = await rtcServer({ DATA_DIR: relative(process.cwd(), dataDir) });
afterAll(async () => {
  await server.close();
  rmSync(dataDir, { recursive: true });
});
const { key } = server;

const FRESH = { progress: 0, fileId: null, error: null };

const call = (method: string, path: string, body?: object) => server.call(method, path, { key, body });
const camera = { kind: "video", source: "camera", codec: "vp8" } as const;
const microphone = { kind: "audio", source: "microphone", codec: "opus" } as const;
const film = (identity: string, offsetMs: number, durationMs: number, source = "camera") => ({
  identity,
  source,
  offsetMs,
  durationMs,
});

/** A recording of three seconds, with these files; `ended` resolves when its composition has. */
async function recorded(files: { kind: "audio" | "video"; offsetMs: number; bytes: Uint8Array }[]) {
  const roomId = await server.room();
  const id = String((await call("POST", `/v1/rooms/${roomId}/recordings`, {})).body.id);
  const client = server.runtime.db.$client;
  const row = client.query<{ id: string }, [string]>("SELECT id FROM recordings WHERE public_id = ?").get(id)?.id ?? "";
  const folder = join(dataDir, "recordings", row);
  mkdirSync(folder, { recursive: true });
  for (const [index, { kind, offsetMs, bytes }] of files.entries()) {
    const fileId = crypto.randomUUID();
    writeFileSync(join(folder, `${fileId}.webm`), bytes);
    await server.runtime.write(() => {
      client.run(
        `INSERT INTO recording_files VALUES (?, ?, ?, ?, ?, ?, 'other', 'vp8', 'video/webm', ?, 2000, 5, NULL, NULL, 'disk', NULL)`,
        [row, fileId, `${fileId}.webm`, `it's [a]; %{n}:,\\ ${index}`, `trk_${index}`, kind, offsetMs],
      );
    });
  }
  server.clock.advance(3_000);
  await call("POST", `/v1/recordings/${id}/stop`);
  const read = async () => (await call("GET", `/v1/recordings/${id}`)).body as unknown as Recording;
  const ended = async (): Promise<Recording> => {
    for (;;) {
      const recording = await read();
      if (recording.composition?.status !== "RUNNING") return recording;
      await Bun.sleep(20);
    }
  };
  return { id, folder, read, ended, compose: (body: object) => call("POST", `/v1/recordings/${id}/composition`, body) };
}

describe("[18] the command of a composition", () => {
  const files = [
    { ...camera, identity: "ada", offsetMs: 0, durationMs: 4_000, path: "/r/a.webm" },
    { ...camera, identity: "bob", offsetMs: 1_500, durationMs: 2_000, path: "/r/b.webm" },
    { ...microphone, identity: "bob", offsetMs: 1_480, durationMs: 2_000, path: "/r/c.webm" },
  ] as const;
  const usual = {
    width: 1_280,
    height: 720,
    durationMs: 4_000,
    files,
    speakers: [],
    captions: null,
    output: "/r/out.mp4",
  };
  const graphOf = (command: string[]) => (command[command.indexOf("-filter_complex") + 1] ?? "").split(";");

  test("overlays every file at its offset, side by side, and mixes the audio", () => {
    const command = compositionCommand({ ...usual, layout: "grid" });
    expect(command.filter((_, index) => command[index - 1] === "-i")).toEqual(["/r/a.webm", "/r/b.webm", "/r/c.webm"]);
    expect(command.slice(-7)).toEqual(["-t", "4.000", "-movflags", "+faststart", "-f", "mp4", "/r/out.mp4"]);
    expect(graphOf(command)).toEqual([
      "color=black:size=1280x720:rate=25:duration=4.000[canvas]",
      "[0:v]setpts=PTS+0.000/TB,scale=640:720:force_original_aspect_ratio=decrease:force_divisible_by=2,setsar=1[film0]",
      "[canvas][film0]overlay=x=0+(640-w)/2:y=0+(720-h)/2:eof_action=pass[on_film0]",
      "[1:v]setpts=PTS+1.500/TB,scale=640:720:force_original_aspect_ratio=decrease:force_divisible_by=2,setsar=1[film1]",
      "[on_film0][film1]overlay=x=640+(640-w)/2:y=0+(720-h)/2:eof_action=pass[on_film1]",
      "[2:a]aresample=48000:async=1:min_hard_comp=0.01:first_pts=0,adelay=1480:all=1[sound2]",
      "[sound2]amix=inputs=1:duration=longest:normalize=0,alimiter=limit=0.95,apad=whole_dur=4.000[sound]",
    ]);
  });

  test("names the format of every input, and lets ffmpeg open files only", () => {
    const [first, ...others] = files;
    const command = compositionCommand({ ...usual, files: [{ ...first, codec: "h264" }, ...others], layout: "grid" });
    const inputs = command.flatMap((word, index) => (word === "-i" ? [command.slice(index - 6, index)] : []));
    const bounded = ["-protocol_whitelist", "file", "-max_pixels", "16777216"];
    expect(inputs).toEqual([
      [...bounded, "-f", "mp4"],
      [...bounded, "-f", "matroska"],
      [...bounded, "-f", "matroska"],
    ]);
  });

  test("leaves out audio from before the recording", () => {
    const early = files.map((file) => ({ ...file, offsetMs: -25 }));
    expect(graphOf(compositionCommand({ ...usual, files: early, layout: "grid" }))).toContain(
      "[2:a]aresample=48000:async=1:min_hard_comp=0.01:first_pts=0,atrim=start=0.025,asetpts=PTS-STARTPTS[sound2]",
    );
  });

  test("puts the speaker on the stage while it speaks", () => {
    const speakers = [{ atMs: 2_000, speakers: [{ identity: "bob", level: 0.9 }] }];
    const graph = graphOf(compositionCommand({ ...usual, layout: "speaker", speakers })).join("\n");
    expect(graph).toMatch(
      /\[large0\]overlay=x=0.*enable='gte\(t,0\.000\)\*lt\(t,2\.000\)\+gte\(t,3\.500\)\*lt\(t,4\.000\)'/,
    );
    expect(graph).toMatch(/\[large1\]overlay=x=0.*enable='gte\(t,2\.000\)\*lt\(t,3\.500\)'/);
  });

  test("draws a caption into the corner of each tile while it has video", () => {
    const fileOf = new Map([
      [tileKeyOf({ ...camera, identity: "ada" }), "name0"],
      [tileKeyOf({ ...camera, identity: "bob" }), "name1"],
    ]);
    const graph = graphOf(compositionCommand({ ...usual, layout: "grid", captions: { font: "font", fileOf } }));
    const text = "drawtext=fontfile=font:textfile=name1:expansion=none";
    const look = "fontsize=20:fontcolor=white:box=1:boxcolor=black@0.5:boxborderw=10:x=660:y=700-th";
    expect(graph).toContain(`[named_film0]${text}:${look}:enable='gte(t,1.500)*lt(t,3.500)'[named_film1]`);
    const stage = graphOf(compositionCommand({ ...usual, layout: "speaker", captions: { font: "font", fileOf } }));
    expect(stage.filter((line) => line.includes("textfile=name0"))).toHaveLength(2);
  });

  test("shows captions in one line, and long ones shortened", () => {
    const shown = (identity: string, source = "camera") => captionOf({ identity, source });
    expect(shown("a':,;[]%{n}\\\nb")).toBe("a':,;[]%{n}\\ b");
    expect(shown("ada", "screenShare")).toBe("ada · screen");
    expect(captionOf({ identity: "p-1", source: "camera" }, "Pat")).toBe("Pat");
    expect([...shown("é".repeat(80))]).toHaveLength(40);
  });

  test("a composition has a tile for every participant, inside the canvas and without overlap", () => {
    for (let count = 1; count <= 30; count++) {
      const cells = gridOf(count, 1_280, 720);
      expect(new Set(cells.map(({ x, y }) => `${x} ${y}`)).size).toBe(count);
      for (const { x, y, width, height } of cells) {
        expect([x % 2, width % 2, height % 2]).toEqual([0, 0, 0]);
        expect(x + width <= 1_280 && y + height <= 720 && x >= 0).toBe(true);
      }
    }
  });

  test("prefers a screen to any speaker, and keeps each on the stage for two seconds", () => {
    const films = [film("ada", 0, 20_000), film("bob", 0, 20_000), film("eve", 10_000, 5_000, "screenShare")];
    const loud = (atMs: number, identity: string) => ({ atMs, speakers: [{ identity, level: 1 }] });
    const events = [loud(1_000, "bob"), loud(3_000, "bob"), loud(3_500, "ada"), loud(12_000, "bob")];
    expect(
      stageSchedule(films, events, 20_000).map(({ tile, fromMs, toMs }) => [JSON.parse(tile)[0], fromMs, toMs]),
    ).toEqual([
      ["ada", 0, 3_000],
      ["bob", 3_000, 10_000],
      ["eve", 10_000, 15_000],
      ["bob", 15_000, 20_000],
    ]);
  });

  test("is planned in time that grows with the number of files, and not with its square", () => {
    // A publisher that changes its codec with every frame fills a recording with files, and its clock makes each last for hours.
    const file = (identity: string, offsetMs: number, durationMs: number) =>
      ({ ...camera, identity, offsetMs, durationMs, path: "" }) as const;
    const files = Array.from({ length: 10_000 }, (_, n) => file(n % 2 ? "bob" : "eve", n / 3, 40_000_000));
    const startedMs = performance.now();
    const command = compositionCommand({ ...usual, layout: "speaker", files: [file("ada", 0, 3), ...files] });
    expect(command.length).toBeGreaterThan(10_000);
    expect(performance.now() - startedMs).toBeLessThan(2_000);
  });
});

describe("[18] a composition", () => {
  test("works with a relative data directory", async () => {
    const { compose, ended } = await recorded([
      { kind: "video", offsetMs: 0, bytes: encoded("webm", 1, "-c:v", "libvpx") },
    ]);
    await compose({ layout: "grid", width: 320, height: 180 });
    expect((await ended()).composition).toMatchObject({ status: "READY", error: null });
  }, 60_000);

  test("is one video as long as the recording, downloaded like its files, and replaced by the next", async () => {
    const { id, folder, compose, ended, read } = await recorded([
      { kind: "video", offsetMs: 0, bytes: encoded("webm", 2, "-c:v", "libvpx") },
      { kind: "video", offsetMs: 1_000, bytes: encoded("webm", 2, "-c:v", "libvpx") },
      { kind: "audio", offsetMs: 1_000, bytes: encoded("webm", 1, "-c:a", "libopus") },
    ]);
    const begun = await compose({ layout: "speaker", width: 320, height: 180 });
    expect([begun.status, begun.body.composition]).toEqual([202, { ...FRESH, status: "RUNNING" }]);
    expect((await compose({ layout: "grid" })).body.code).toBe("SVC_CONFLICT");
    const { composition, files } = await ended();
    expect(composition).toMatchObject({ status: "READY", progress: 1 });
    expect(files).toHaveLength(3);
    const download = async (fileId: string | null | undefined) => {
      const { body } = await call("GET", `/v1/recordings/${id}/files/${fileId}/download-url`);
      return new Uint8Array(await (await server.app.handle(new Request(String(body.url)))).arrayBuffer());
    };
    const made = probe(await download(composition?.fileId), "mp4");
    expect(made).toMatchObject({ codec: "h264", width: 320, height: 180, frames: 75 });
    expect(Math.abs(made.durationSeconds - 3)).toBeLessThan(0.1);

    expect((await compose({ layout: "grid", width: 320, height: 180 })).status).toBe(202);
    const next = (await ended()).composition;
    expect(next?.fileId).not.toBe(composition?.fileId);
    expect(probe(await download(next?.fileId), "mp4").frames).toBe(75);
    expect(readdirSync(folder)).toHaveLength(4);
    expect((await read()).files).toHaveLength(3);
  }, 60_000);

  test("fails with the reason of ffmpeg, leaves no file, and can be requested again", async () => {
    const { compose, ended, folder } = await recorded([{ kind: "video", offsetMs: 0, bytes: Buffer.from("no film") }]);
    await compose({ layout: "grid" });
    const { composition, files } = await ended();
    expect(composition).toEqual({ ...FRESH, status: "FAILED", error: expect.stringMatching(/^ffmpeg: /) });
    expect(composition?.error).toContain(`; ${files[0]?.id}.webm: Invalid data found when processing input`);
    expect(composition?.error).not.toContain(dataDir);
    expect(readdirSync(folder)).toHaveLength(1);
    expect((await compose({ layout: "grid" })).status).toBe(202);
    await ended();
  }, 60_000);

  test("leaves out a file that its media node lost, and needs at least one other", async () => {
    const bytes = encoded("webm", 1, "-c:v", "libvpx");
    const file = { kind: "video", bytes } as const;
    const { compose, ended, folder } = await recorded([
      { ...file, offsetMs: 0 },
      { ...file, offsetMs: 500 },
    ]);
    const [, second] = (await ended()).files;
    const lose = (where: string) =>
      server.runtime.write(() => {
        server.runtime.db.$client.run(`UPDATE recording_files SET location = 'lost' WHERE ${where}`, [
          second?.id ?? "",
        ]);
      });
    await lose("id = ?");
    rmSync(join(folder, `${second?.id}.webm`));
    await compose({ layout: "grid", width: 320, height: 180 });
    expect((await ended()).composition).toMatchObject({ status: "READY", error: null });
    await lose("recording_id = (SELECT recording_id FROM recording_files WHERE id = ?)");
    expect(await compose({ layout: "grid" })).toMatchObject({ status: 409, body: { code: "SVC_CONFLICT" } });
  }, 60_000);

  test("opens no path that a recorded file contains", async () => {
    const list = Buffer.from("ffconcat version 1.0\nfile other.webm\n");
    const { compose, ended, folder } = await recorded([{ kind: "video", offsetMs: 0, bytes: list }]);
    writeFileSync(join(folder, "other.webm"), encoded("webm", 1, "-c:v", "libvpx"));
    await compose({ layout: "grid", width: 320, height: 180 });
    const error = expect.stringContaining("EBML header parsing failed");
    expect((await ended()).composition).toMatchObject({ status: "FAILED", error });
  }, 60_000);

  test("is removed with its recording, together with the files", async () => {
    const { id, compose, folder } = await recorded([
      { kind: "video", offsetMs: 0, bytes: encoded("webm", 2, "-c:v", "libvpx") },
    ]);
    await compose({ layout: "grid" });
    expect((await call("DELETE", `/v1/recordings/${id}`)).status).toBe(204);
    expect(existsSync(folder)).toBe(false);
  }, 60_000);

  test("can be cancelled: no video, no record of it, and the files stay", async () => {
    const { id, compose, read, folder } = await recorded([
      { kind: "video", offsetMs: 0, bytes: encoded("webm", 2, "-c:v", "libvpx") },
    ]);
    const discard = () => call("DELETE", `/v1/recordings/${id}/composition`);
    await compose({ layout: "grid" });
    expect((await discard()).status).toBe(204);
    expect(await read()).toMatchObject({ composition: null, files: [{ kind: "video" }] });
    expect(readdirSync(folder)).toHaveLength(1);
    expect((await discard()).status).toBe(204);
  }, 60_000);

  test("is shown without a reason when it failed in an earlier version of the server", async () => {
    const { id, read } = await recorded([]);
    const state = { status: "FAILED", progress: 0, fileId: null };
    await server.runtime.write(() => {
      const text = JSON.stringify(state);
      server.runtime.db.$client.run("UPDATE recordings SET composition = ? WHERE public_id = ?", [text, id]);
    });
    expect((await read()).composition as object).toEqual({ ...state, error: null });
  });

  test("fails when the server stops during it", async () => {
    const { id, read } = await recorded([]);
    const running = JSON.stringify({ status: "RUNNING", progress: 0.5, fileId: null });
    await server.runtime.write(() => {
      server.runtime.db.$client.run("UPDATE recordings SET composition = ? WHERE public_id = ?", [running, id]);
    });
    await server.services.recordings.recover();
    const error = "The server stopped while it was composing.";
    expect((await read()).composition).toEqual({ ...FRESH, status: "FAILED", error });
  });

  test("needs ffmpeg, an ended recording and a recorded file", async () => {
    const { compose } = await recorded([]);
    expect(await compose({ layout: "grid" })).toMatchObject({ status: 409, body: { code: "SVC_CONFLICT" } });
    expect((await compose({ layout: "circle" })).status).toBe(400);
    expect((await compose({ layout: "grid", width: 3_841 })).status).toBe(400);
    const running = await call("POST", `/v1/rooms/${await server.room()}/recordings`, {});
    const path = `/v1/recordings/${running.body.id}/composition`;
    expect((await call("POST", path, { layout: "grid" })).body.code).toBe("SVC_CONFLICT");
    const { PATH } = process.env;
    process.env.PATH = "/nowhere";
    try {
      const refused = await compose({ layout: "grid" });
      expect([refused.status, refused.body.code]).toEqual([409, "SVC_COMPOSER_UNAVAILABLE"]);
    } finally {
      process.env.PATH = PATH;
    }
  });
});
