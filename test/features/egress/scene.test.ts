import { expect, test } from "bun:test";
import { fitted, MAX_TILES, type SceneTrack, tilesOf } from "../../../src/features/egress/compositor/scene.ts";

const STAGE = { width: 1280, height: 720 };

const camera = (identity: string, more: Partial<SceneTrack> = {}): SceneTrack => ({
  trackId: `${identity}-camera`,
  identity,
  name: identity,
  kind: "video",
  source: "camera",
  muted: false,
  ...more,
});
const microphone = (identity: string): SceneTrack =>
  camera(identity, { trackId: `${identity}-microphone`, kind: "audio", source: "microphone" });
const screen = (identity: string): SceneTrack =>
  camera(identity, { trackId: `${identity}-screen`, source: "screenShare" });

const shown = (...parameters: Parameters<typeof tilesOf>) => tilesOf(...parameters).map(({ trackId }) => trackId);

test("a grid has a tile for every participant, even one without video", () => {
  const tracks = [camera("ann"), microphone("ann"), microphone("ben")];
  const tiles = tilesOf(tracks, [], "grid", STAGE, null);
  expect(tiles.map(({ identity, trackId }) => [identity, trackId])).toEqual([
    ["ann", "ann-camera"],
    ["ben", null],
  ]);
  expect(tiles.map(({ rectangle }) => rectangle)).toEqual([
    { x: 0, y: 0, width: 640, height: 720 },
    { x: 640, y: 0, width: 640, height: 720 },
  ]);
});

test("a participant whose camera is muted is shown by name", () => {
  expect(tilesOf([camera("ann", { muted: true })], [], "grid", STAGE, null)).toEqual([
    { identity: "ann", name: "ann", trackId: null, rectangle: { x: 0, y: 0, ...STAGE } },
  ]);
});

test("a grid has at most 25 tiles", () => {
  const many = Array.from({ length: MAX_TILES + 1 }, (_, index) => camera(`p${index}`));
  expect(tilesOf(many.slice(1), [], "grid", STAGE, null)).toHaveLength(MAX_TILES);
  expect(tilesOf(many, [], "grid", STAGE, null)).toHaveLength(MAX_TILES);
});

test("the stage has the loudest speaker with video, and keeps it while no other speaks", () => {
  const tracks = [camera("ann"), camera("ben"), microphone("cleo")];
  expect(shown(tracks, ["cleo", "ben"], "single-speaker", STAGE, "ann")).toEqual(["ben-camera"]);
  expect(shown(tracks, [], "single-speaker", STAGE, "ben")).toEqual(["ben-camera"]);
  expect(shown(tracks, ["gone"], "single-speaker", STAGE, null)).toEqual(["ann-camera"]);
});

test("a shared screen is on the stage in every layout, and the cameras below it", () => {
  const tracks = [camera("ann"), screen("ben"), camera("ben")];
  for (const layout of ["grid", "speaker"] as const)
    expect(shown(tracks, ["ann"], layout, STAGE, null)).toEqual(["ben-screen", "ann-camera", "ben-camera"]);
  expect(shown(tracks, ["ann"], "single-speaker", STAGE, null)).toEqual(["ben-screen"]);
});

test("a room without participants makes an empty frame", () => {
  for (const layout of ["grid", "speaker", "single-speaker"] as const)
    expect(tilesOf([], ["ann"], layout, STAGE, "ann")).toEqual([]);
});

test("a video keeps its shape within its tile, at even positions", () => {
  const tile = { x: 0, y: 0, width: 640, height: 720 };
  expect(fitted({ width: 1280, height: 720 }, tile)).toEqual({ x: 0, y: 180, width: 640, height: 360 });
  expect(fitted({ width: 360, height: 640 }, { x: 640, y: 0, width: 640, height: 360 })).toEqual({
    x: 858,
    y: 0,
    width: 202,
    height: 360,
  });
  expect(fitted({ width: 8192, height: 2 }, tile)).toMatchObject({ width: 640, height: 2 });
});
