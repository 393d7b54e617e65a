/** Two participants, started by the test beside it: `node native-pair.mjs <what they need>`. */
import { enter, publish, rtc, say, tokens } from "./native-room.mjs";

const ann = await enter("ann", tokens.ann);
const voice = await publish(ann, "audio");
void voice.waitForSubscription().then(() => say("ann knows that she is heard"));
const face = await publish(ann, "video");
const ben = await enter("ben", tokens.ben);
await publish(ben, "audio");

const commands = {
  async data() {
    const bytes = (text) => new TextEncoder().encode(text);
    await ann.localParticipant.publishData(bytes("to all"), { reliable: true, topic: "t" });
    ben.localParticipant.registerRpcMethod("add", async ({ payload }) => String(Number(payload) + 1));
    // The SDK gives up after seven seconds, which a busy machine may take: it is asked again then, and only then.
    const call = () =>
      ann.localParticipant
        .performRpc({ destinationIdentity: "ben", method: "add", payload: "41" })
        .catch((error) => (error.code === 1501 || error.code === 1502 ? call() : Promise.reject(error)));
    const sum = await call();
    say(`rpc ${sum}`);
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
