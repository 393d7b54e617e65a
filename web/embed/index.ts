/** `/embed.js`: custom elements for a call, a chat and a live stream, for pages without a build step. */
import { StoaChatElement } from "./stoa-chat.tsx";
import { StoaLiveElement } from "./stoa-live.tsx";
import { StoaRoomElement } from "./stoa-room.tsx";

const ELEMENTS = { "stoa-room": StoaRoomElement, "stoa-chat": StoaChatElement, "stoa-live": StoaLiveElement };

for (const [name, element] of Object.entries(ELEMENTS)) {
  // A page may load the script twice.
  if (!customElements.get(name)) customElements.define(name, element);
}

export { StoaChatElement, StoaLiveElement, StoaRoomElement };
