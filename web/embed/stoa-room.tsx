/** @jsxImportSource react */
import type { ReactNode } from "react";
import { Conference } from "../react/conference/conference.tsx";
import { Missing } from "./missing.tsx";
import { StoaElement } from "./stoa-element.ts";

/**
 * `<stoa-room endpoint token chat-endpoint? chat-token? audio="off"? video="off"?>`. Events `joined`, `left`, `error`; the
 * slot `captions` lies over the pictures; parts `conference`, `tile`, `bar`.
 */
export class StoaRoomElement extends StoaElement {
  static readonly observedAttributes = ["endpoint", "token", "chat-endpoint", "chat-token", "audio", "video"];

  protected content(): ReactNode {
    const [endpoint, token] = [this.getAttribute("endpoint"), this.getAttribute("token")];
    if (!endpoint || !token) return <Missing tag="stoa-room" names="endpoint and token" />;
    const [chatEndpoint, chatToken] = [this.getAttribute("chat-endpoint"), this.getAttribute("chat-token")];
    return (
      <Conference
        key={`${endpoint} ${token}`}
        endpoint={endpoint}
        token={token}
        chat={chatEndpoint && chatToken ? { endpoint: chatEndpoint, token: chatToken } : undefined}
        audio={this.isOn("audio")}
        video={this.isOn("video")}
        captions={<slot name="captions" />}
        onJoined={this.#joined}
        onLeave={this.#left}
        onError={this.#failed}
      />
    );
  }

  readonly #joined = () => this.tell("joined");
  readonly #left = () => this.tell("left");
  readonly #failed = (error: Error) => this.tell("error", error);
}
