/** A support chat with history and attachments that survives reconnects. */
import { connectChat } from "stoa/client";
import type { Join } from "stoa/server";
import { app, button, callBackend } from "../backend.ts";

const { chat: credentials, conversation: record } = await callBackend<Join>("/api/join", { room: "support" });
const chat = await connectChat(credentials.endpoint, credentials.token);
const conversation = await chat.join(record.id);

const list = document.createElement("ul");
const input = Object.assign(document.createElement("input"), { ariaLabel: "Message" });
const file = Object.assign(document.createElement("input"), { type: "file", ariaLabel: "File" });
app.append(list, input, file);
const show = () => {
  list.replaceChildren(
    ...conversation.messages.map(({ senderName, text, attachment }) =>
      Object.assign(document.createElement("li"), {
        textContent: `${senderName}: ${text ?? `📎 ${attachment?.filename}`}`,
      }),
    ),
  );
};
conversation.on("messagesChanged", show);
show();
button("Send", () => {
  const text = input.value;
  input.value = "";
  void conversation.send(text);
});
file.onchange = async () => {
  const [chosen] = file.files ?? [];
  if (chosen) await conversation.send({ attachment: await conversation.upload(chosen) });
};
