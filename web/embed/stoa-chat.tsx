/** @jsxImportSource react */
import { type ReactNode, useEffect, useRef } from "react";
import { useChat, useConversation } from "../react/chat-hooks.ts";
import { ChatPanel } from "../react/conference/chat-panel.tsx";
import { useStyle } from "../react/conference/use-style.ts";
import type { LocalMessage } from "../sdk/index.ts";
import { MissingAttributes, missingText } from "./missing-attributes.tsx";
import { StoaElement } from "./stoa-element.ts";

/** `<stoa-chat endpoint token room heading?>`. Dispatches `message` (with the message as its detail) and `error`. */
export class StoaChatElement extends StoaElement {
  static readonly observedAttributes = ["endpoint", "token", "room", "heading"];

  protected content(): ReactNode {
    const [endpoint, token, room] = ["endpoint", "token", "room"].map((name) => this.getAttribute(name));
    if (!endpoint || !token || !room)
      return <MissingAttributes text={missingText("stoa-chat", { endpoint, token, room }) ?? ""} />;
    const heading = this.getAttribute("heading") ?? undefined;
    return <Panel {...{ endpoint, token, room, heading }} onMessage={this.#onMessage} onError={this.#onError} />;
  }

  readonly #onMessage = (message: LocalMessage) => this.dispatch("message", message);
  readonly #onError = (error: Error) => this.dispatch("error", error);
}

type PanelProps = {
  endpoint: string;
  token: string;
  room: string;
  heading?: string;
  onMessage: (message: LocalMessage) => void;
  onError: (error: Error) => void;
};

function Panel({ endpoint, token, room, heading, onMessage, onError }: PanelProps) {
  const element = useRef<HTMLElement>(null);
  useStyle(element);
  const chat = useChat(endpoint, token);
  const status = useConversation(chat, room);
  const error = chat.error ?? status.error;
  useEffect(() => {
    if (error) onError(error);
  }, [error, onError]);
  useEffect(() => {
    return status.conversation?.on("message", onMessage);
  }, [status.conversation, onMessage]);
  return (
    <section
      ref={element}
      className="stoa-conference"
      data-alone="chat"
      part="conference"
      aria-label={heading ?? "Chat"}
    >
      <div className="stoa-side" data-alone="">
        <ChatPanel {...status} error={error} title={heading} />
      </div>
    </section>
  );
}
