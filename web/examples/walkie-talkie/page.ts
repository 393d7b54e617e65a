/** Push to talk: the microphone is open while the button is held, and only then. */
import { connect } from "stoa/client";
import type { Join } from "stoa/server";
import { ask, button, line } from "../ask.ts";

const { rtc } = await ask<Join>("/api/join", { room: "channel-1" });
const room = await connect(rtc.endpoint, rtc.token);
const microphone = await room.localParticipant.enableMicrophone();
await room.localParticipant.mute(microphone);

const talk = button("Hold to talk", () => {});
const open = (on: boolean) => void room.localParticipant.mute(microphone, !on);
talk.onpointerdown = () => open(true);
talk.onpointerup = talk.onpointerleave = () => open(false);

const heard = line("Silence.");
room.on("trackUnmuted", (_track, { identity }) => {
  heard.textContent = `${identity} speaks. Over.`;
});
room.on("trackMuted", () => {
  heard.textContent = "Silence.";
});
