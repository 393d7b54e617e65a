import { useEffect, useState } from "react";
import { Conference } from "stoa/react";
import { type Credentials, request } from "./api.js";

/** A call with chat, files and recording. `path` is where the server mints the credentials. */
export function Call({ path, onOver }: { path: string; onOver: () => void }) {
  const [credentials, setCredentials] = useState<Credentials>();
  const [failure, setFailure] = useState("");
  useEffect(() => {
    let isCurrent = true;
    request<Credentials>("POST", path).then(
      (minted) => isCurrent && setCredentials(minted),
      (error: Error) => isCurrent && setFailure(error.message),
    );
    return () => {
      isCurrent = false;
    };
  }, [path]);
  if (failure) return <p role="alert">{failure}</p>;
  if (!credentials) return <p>Connecting…</p>;
  const { rtc, chat } = credentials;
  const renew = () => request<Credentials>("POST", path);
  return (
    <div className="call">
      <Conference
        endpoint={rtc.endpoint}
        token={rtc.token}
        options={{ tokenProvider: async () => (await renew()).rtc.token }}
        chat={{ ...chat, tokenProvider: async () => (await renew()).chat.token }}
        onLeave={onOver}
        onError={({ reason }) => {
          if (reason === "room-closed") onOver();
        }}
      />
    </div>
  );
}
