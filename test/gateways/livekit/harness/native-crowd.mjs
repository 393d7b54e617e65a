/** Joins a participant with video for each token: `node native-crowd.mjs <options>`. */
import { enter, publish, say, tokens } from "./native-room.mjs";

const rooms = await Promise.all(
  Object.entries(tokens).map(async ([name, token]) => {
    const room = await enter(name, token);
    await publish(room, "video", { width: 160, height: 90, everyMs: 200 });
    return { name, room };
  }),
);
process.stdin.on("data", () => {
  for (const { name, room } of rooms) {
    const known = [...room.remoteParticipants.values()].map(({ identity, name }) => [identity, name]);
    say(`${name} knows ${JSON.stringify(Object.fromEntries(known.sort()))}`);
  }
});
