import { expect, test } from "bun:test";
import { StoaError } from "../../../web/sdk/errors.ts";
import { MuteSync } from "../../../web/sdk/room/peer/mute-sync.ts";

/** A fake server whose responses the test triggers. */
function server() {
  const requests: [string, boolean][] = [];
  const waiting: { resolve: () => void; reject: (error: Error) => void }[] = [];
  const muteSync = new MuteSync((trackId, muted) => {
    requests.push([trackId, muted]);
    return new Promise<void>((resolve, reject) => waiting.push({ resolve, reject }));
  });
  const respond = async (error?: Error) => {
    const next = waiting.shift();
    if (error) next?.reject(error);
    else next?.resolve();
    for (let n = 0; n < 10; n++) await Promise.resolve();
  };
  return { muteSync, requests, respond };
}

test("[6] a track that is muted again before the server has responded ends up muted on the server", async () => {
  const { muteSync, requests, respond } = server();
  const track = { id: "t1", muted: true };
  void muteSync.sync(track);
  await respond();
  track.muted = false;
  const opened = muteSync.sync(track);
  track.muted = true;
  const closed = muteSync.sync(track);
  await respond();
  expect(requests).toEqual([
    ["t1", true],
    ["t1", false],
    ["t1", true],
  ]);
  await respond();
  await Promise.all([opened, closed]);
  await muteSync.sync(track);
  expect(requests).toHaveLength(3);
});

test("[6] a change that is reverted during a request causes no further request", async () => {
  const { muteSync, requests, respond } = server();
  const track = { id: "t1", muted: true };
  const first = muteSync.sync(track);
  track.muted = false;
  void muteSync.sync(track);
  track.muted = true;
  void muteSync.sync(track);
  await respond();
  await first;
  expect(requests).toEqual([["t1", true]]);
});

test("[6] a lost connection is not an error, a refusal is, and a new session is synced again", async () => {
  const { muteSync, requests, respond } = server();
  const track = { id: "t1", muted: true };
  const lost = muteSync.sync(track);
  await respond(new StoaError("CLOSED", "closed", "lost"));
  await lost;
  const refused = muteSync.sync(track);
  const caught = refused.catch((error: StoaError) => error.code);
  await respond(new StoaError("PERMISSION_DENIED", "not-allowed", "no"));
  expect(await caught).toBe("PERMISSION_DENIED");
  const last = muteSync.sync(track);
  await respond();
  await last;
  muteSync.reset();
  void muteSync.sync(track);
  await muteSync.sync({ id: null, muted: true });
  expect(requests).toHaveLength(4);
});

test("[6] a track that the server has muted is not reported back to it", async () => {
  const { muteSync, requests } = server();
  muteSync.mutedByServer({ id: "t1", muted: true });
  await muteSync.sync({ id: "t1", muted: true });
  expect(requests).toEqual([]);
});
