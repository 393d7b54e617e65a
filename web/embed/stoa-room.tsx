/** @jsxImportSource react */
import type { ReactNode } from "react";
import { Conference } from "../react/conference/conference.tsx";
import type { RoomOptions } from "../sdk/index.ts";
import { MissingAttributes, missingText } from "./missing-attributes.tsx";
import { StoaElement } from "./stoa-element.ts";

/**
 * `<stoa-room endpoint token chat-endpoint? chat-token? passphrase? encryption="agree"? audio="off|music"?
 * video="off"?>`. Dispatches `joined`, `left` and `error`; the slot `captions` is shown over the video; its parts are `conference`, `tile` and `bar`.
 */
export class StoaRoomElement extends StoaElement {
  static readonly observedAttributes = [
    "endpoint",
    "token",
    "chat-endpoint",
    "chat-token",
    "passphrase",
    "encryption",
    "audio",
    "video",
  ];

  protected content(): ReactNode {
    const [endpoint, token] = [this.getAttribute("endpoint"), this.getAttribute("token")];
    if (!endpoint || !token) return <MissingAttributes text={missingText("stoa-room", { endpoint, token }) ?? ""} />;
    const [chatEndpoint, chatToken] = [this.getAttribute("chat-endpoint"), this.getAttribute("chat-token")];
    const [passphrase, encryption] = [this.getAttribute("passphrase"), this.getAttribute("encryption")];
    return (
      <Conference
        key={JSON.stringify([endpoint, token, passphrase, encryption])}
        endpoint={endpoint}
        token={token}
        chat={chatEndpoint && chatToken ? { endpoint: chatEndpoint, token: chatToken } : undefined}
        options={optionsOf(passphrase, encryption)}
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

function optionsOf(passphrase: string | null, encryption: string | null): RoomOptions | undefined {
  if (encryption === "agree") return { encryption: { agree: true } };
  return passphrase ? { encryption: { passphrase } } : undefined;
}
