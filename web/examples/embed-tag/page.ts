/** A whole conference in one tag, which the server's `/embed.js` defines. */
import type { Join } from "stoa/server";
import { app, callBackend } from "../backend.ts";

const { rtc, chat } = await callBackend<Join>("/api/join");
const room = document.createElement("stoa-room");
room.setAttribute("endpoint", rtc.endpoint);
room.setAttribute("token", rtc.token);
room.setAttribute("chat-endpoint", chat.endpoint);
room.setAttribute("chat-token", chat.token);
room.addEventListener("left", () => room.remove());
app.append(room);
