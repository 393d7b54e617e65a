import { api, request } from "../../api.ts";
import { Action } from "../action.tsx";
import { humanize } from "../states.tsx";

const TITLES: Record<string, string> = { google: "Google", github: "GitHub" };

/** Buttons to sign in with a provider. */
export function Providers({ names, onLeave }: { names: readonly string[]; onLeave?: () => void }) {
  if (names.length === 0) return null;
  return (
    <div class="stack">
      <p class="or">or</p>
      {names.map((provider) => (
        <Action
          key={provider}
          run={async () => {
            const { authorizationUrl } = await request(api.v1.auth.oauth({ provider }).start.post());
            onLeave?.();
            location.assign(authorizationUrl);
          }}
        >
          {`Continue with ${TITLES[provider] ?? humanize(provider)}`}
        </Action>
      ))}
    </div>
  );
}
