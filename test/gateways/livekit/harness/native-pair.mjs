/** Two participants, started by the test beside it: `node native-pair.mjs <what they need>`. */
import { enter, publish, rtc, say, tokens } from "./native-room.mjs";

const ann = await enter("ann", tokens.ann);
const voice = await publish(ann, "audio");
void voice.waitForSubscription().then(() => say("ann knows that she is heard"));
const face = await publish(ann, "video");
const ben = await enter("ben", tokens.ben);
await publish(ben, "audio");

/** The SDK gives up after seven seconds, which a busy machine may take: it is asked again then, and only then. */
const ask = (room, destinationIdentity, method, payload = "") =>
  room.localParticipant
    .performRpc({ destinationIdentity, method, payload })
    .catch((error) =>
      error.code === 1501 || error.code === 1502
        ? ask(room, destinationIdentity, method, payload)
        : Promise.reject(error),
    );
const TEXT = "ä".repeat(30_000);
const BYTES = 200_000;
for (const [name, room] of Object.entries({ ann, ben })) {
  room.registerTextStreamHandler("text", async (reader, { identity }) =>
    say(`${name} reads text of ${identity} ${(await reader.readAll()) === TEXT}`),
  );
  room.registerByteStreamHandler("bytes", async (reader, { identity }) => {
    const parts = await reader.readAll();
    say(`${name} reads bytes of ${identity} ${parts.reduce((sum, { length }) => sum + length, 0)}`);
  });
}

const commands = {
  /** What `data` leaves out: the other direction, streams, errors of requests, and lossy packets. */
  async more() {
    await publish(ben, "video");
    ann.localParticipant.registerRpcMethod("refuse", async () => {
      throw new rtc.RpcError(42, "no seat", "A4");
    });
    for (const { localParticipant: me } of [ann, ben]) {
      await me.sendText(TEXT, { topic: "text" });
      const writer = await me.streamBytes({ topic: "bytes" });
      await writer.write(new Uint8Array(BYTES));
      await writer.close();
      // One of them may be lost.
      for (let n = 0; n < 20; n++) {
        await me.publishData(new TextEncoder().encode("maybe"), { reliable: false, topic: "lossy" });
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
    for (const method of ["refuse", "unknown"]) {
      const { code, data } = await ask(ben, "ann", method).catch((error) => error);
      say(`rpc ${method} ${code} ${data ?? ""}`);
    }
  },
  async data() {
    const bytes = (text) => new TextEncoder().encode(text);
    await ann.localParticipant.publishData(bytes("to all"), { reliable: true, topic: "t" });
    ben.localParticipant.registerRpcMethod("add", async ({ payload }) => String(Number(payload) + 1));
    say(`rpc ${await ask(ann, "ben", "add", "41")}`);
  },
  attributes: () => ann.localParticipant.setAttributes({ team: "red" }),
  unpublish: () => ann.localParticipant.unpublishTrack(face.sid ?? ""),
  again: () => publish(ann, "video"),
  async leave() {
    await ann.disconnect();
  },
  async end() {
    await ben.disconnect();
    await rtc.dispose();
    process.exit(0);
  },
};

let rest = "";
process.stdin.on("data", async (chunk) => {
  const lines = `${rest}${chunk}`.split("\n");
  rest = lines.pop() ?? "";
  for (const line of lines) await commands[line]?.();
});
say("ready");
