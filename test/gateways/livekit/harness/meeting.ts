import { hears, joinLivekit, sees } from "./livekit-page.ts";
import type { StageBeside } from "./stage.ts";

/** A client on one connection and a client on two see and hear each other. */
export async function meet(stage: StageBeside, room: string, url = stage.wsUrl) {
  const ann = await stage.page("livekit-client");
  const ben = await stage.page("livekit-client-two-connections");
  await joinLivekit(ann, url, await stage.token(room, "ann"));
  await joinLivekit(ben, url, await stage.token(room, "ben"));
  await Promise.all([sees(ann, "ben"), sees(ben, "ann"), hears(ann, "ben"), hears(ben, "ann")]);
  return { ann, ben };
}
