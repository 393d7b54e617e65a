/** The whole conference as one tag; `/embed.js` of the server has defined it. */
import type { Join } from "stoa/server";
import { app, ask } from "../ask.ts";

const { rtc, chat } = await ask<Join>("/api/join");
const room = document.createElement("stoa-room");
room.setAttribute("endpoint", rtc.endpoint);
room.setAttribute("token", rtc.token);
room.setAttribute("chat-endpoint", chat.endpoint);
room.setAttribute("chat-token", chat.token);
room.addEventListener("left", () => room.remove());
app.append(room);
