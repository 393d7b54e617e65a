import { expect, test } from "bun:test";
import { StoaError } from "../../../web/sdk/errors.ts";
import { MuteTeller } from "../../../web/sdk/room/peer/mute-teller.ts";

/** A server whose answers come when the test says so. */
function server() {
  const told: [string, boolean][] = [];
  const waiting: { resolve: () => void; reject: (error: Error) => void }[] = [];
  const teller = new MuteTeller((trackId, muted) => {
    told.push([trackId, muted]);
    return new Promise<void>((resolve, reject) => waiting.push({ resolve, reject }));
  });
  const answer = async (error?: Error) => {
    const next = waiting.shift();
    if (error) next?.reject(error);
    else next?.resolve();
    for (let n = 0; n < 10; n++) await Promise.resolve();
  };
  return { teller, told, answer };
}

test("[6] who mutes again before the server has answered is muted there, too", async () => {
  const { teller, told, answer } = server();
  const track = { id: "t1", muted: true };
  void teller.tell(track);
  await answer();
  track.muted = false;
  const opened = teller.tell(track);
  track.muted = true;
  const closed = teller.tell(track);
  await answer();
  expect(told).toEqual([
    ["t1", true],
    ["t1", false],
    ["t1", true],
  ]);
  await answer();
  await Promise.all([opened, closed]);
  await teller.tell(track);
  expect(told).toHaveLength(3);
});

test("[6] what changed twice while the server was asked is not told at all", async () => {
  const { teller, told, answer } = server();
  const track = { id: "t1", muted: true };
  const first = teller.tell(track);
  track.muted = false;
  void teller.tell(track);
  track.muted = true;
  void teller.tell(track);
  await answer();
  await first;
  expect(told).toEqual([["t1", true]]);
});

test("[6] a lost connection is no error, a refusal is one, and another session is told anew", async () => {
  const { teller, told, answer } = server();
  const track = { id: "t1", muted: true };
  const lost = teller.tell(track);
  await answer(new StoaError("CLOSED", "closed", "lost"));
  await lost;
  const refused = teller.tell(track);
  const caught = refused.catch((error: StoaError) => error.code);
  await answer(new StoaError("PERMISSION_DENIED", "not-allowed", "no"));
  expect(await caught).toBe("PERMISSION_DENIED");
  const last = teller.tell(track);
  await answer();
  await last;
  teller.forget();
  void teller.tell(track);
  await teller.tell({ id: null, muted: true });
  expect(told).toHaveLength(4);
});

test("[6] what the server muted by itself is not told back", async () => {
  const { teller, told } = server();
  teller.knows({ id: "t1", muted: true });
  await teller.tell({ id: "t1", muted: true });
  expect(told).toEqual([]);
});
