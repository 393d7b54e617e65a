/** @jsxImportSource react */
/** A video call with chat, built with the React hooks. */
import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";
import { StoaRoom, useChat, useConversation, useRoom, useTracks, VideoTile } from "stoa/react";
import type { Join } from "stoa/server";
import { app, callBackend } from "../backend.ts";

function Call({ join }: { join: Join }) {
  return (
    <StoaRoom endpoint={join.rtc.endpoint} token={join.rtc.token} audio video>
      <Participants />
      <ChatBox join={join} />
    </StoaRoom>
  );
}

function Participants() {
  const { state } = useRoom();
  const cameras = useTracks(["camera"]);
  return (
    <>
      <p>{state}</p>
      {cameras.map(({ id, identity, track }) => (
        <VideoTile key={id} track={track} title={identity} width={320} />
      ))}
    </>
  );
}

function ChatBox({ join }: { join: Join }) {
  const chat = useChat(join.chat.endpoint, join.chat.token);
  const { messages, send } = useConversation(chat, join.conversation.id);
  const [text, setText] = useState("");
  const submit = () => {
    setText("");
    void send(text);
  };
  return (
    <form action={submit}>
      <ul>
        {messages.map((message) => (
          <li key={message.id}>{`${message.senderName}: ${message.text}`}</li>
        ))}
      </ul>
      <input value={text} onChange={(event) => setText(event.target.value)} aria-label="Message" />
    </form>
  );
}

createRoot(app).render(
  <StrictMode>
    <Call join={await callBackend<Join>("/api/join")} />
  </StrictMode>,
);
