/** @jsxImportSource react */
import type { ReactNode } from "react";
import { Conference } from "../react/conference/conference.tsx";
import { MissingAttributes, missingText } from "./missing-attributes.tsx";
import { StoaElement } from "./stoa-element.ts";

/**
 * `<stoa-room endpoint token chat-endpoint? chat-token? passphrase? audio="off|music"? video="off"?>`. Dispatches
 * `joined`, `left` and `error`; the slot `captions` is shown over the video; its parts are `conference`, `tile` and `bar`.
 */
export class StoaRoomElement extends StoaElement {
  static readonly observedAttributes = [
    "endpoint",
    "token",
    "chat-endpoint",
    "chat-token",
    "passphrase",
    "audio",
    "video",
  ];

  protected content(): ReactNode {
    const [endpoint, token] = [this.getAttribute("endpoint"), this.getAttribute("token")];
    if (!endpoint || !token) return <MissingAttributes text={missingText("stoa-room", { endpoint, token }) ?? ""} />;
    const [chatEndpoint, chatToken] = [this.getAttribute("chat-endpoint"), this.getAttribute("chat-token")];
    const passphrase = this.getAttribute("passphrase");
    return (
      <Conference
        key={JSON.stringify([endpoint, token, passphrase])}
        endpoint={endpoint}
        token={token}
        chat={chatEndpoint && chatToken ? { endpoint: chatEndpoint, token: chatToken } : undefined}
        options={passphrase ? { encryption: { passphrase } } : undefined}
        audio={this.getAttribute("audio") === "music" ? "music" : this.isOn("audio")}
        video={this.isOn("video")}
        captions={<slot name="captions" />}
        onJoined={this.#joined}
        onLeave={this.#left}
        onError={this.#failed}
      />
    );
  }

  readonly #joined = () => this.dispatch("joined");
  readonly #left = () => this.dispatch("left");
  readonly #failed = (error: Error) => this.dispatch("error", error);
}
