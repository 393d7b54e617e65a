import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { projectPath } from "../../address.ts";
import { api, request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { heldInvitation, takeToken } from "../../one-time-token.ts";
import { Action } from "../../parts/action.tsx";
import { Providers } from "../../parts/frame/providers.tsx";
import { SignedOutPage } from "../../parts/frame/signed-out-page.tsx";
import { humanize, Loaded } from "../../parts/states.tsx";
import { Ago } from "../../parts/time.tsx";
import { signedIn, signOut, user } from "../../session.ts";
import { RegisterForm } from "./register.tsx";
import { SignInForm } from "./sign-in.tsx";

/** An invitation to a project, accepted with the current or a new account. */
export function Invitation() {
  const [token] = useState(() => takeToken() ?? "");
  const { route } = useLocation();
  const [known, setKnown] = useState(false);
  const preview = usePolling(() => request(api.v1.invitations({ token }).get()), [token], 0);
  const registration = usePolling(() => request(api.v1.auth.registration.get()), [], 0);
  const accept = async () => route(projectPath((await request(api.v1.invitations({ token }).accept.post())).id), true);
  return (
    <SignedOutPage title="You are invited">
      <Loaded live={preview}>
        {({ projectName, email, role, invitedBy, expiresAt }) => (
          <>
            <p>
              {invitedBy ?? "The operator"} invites {email} to the project <b>{projectName}</b>, as{" "}
              {humanize(role).toLowerCase()}. The invitation expires <Ago at={expiresAt} />.
            </p>
            {signedIn.value ? (
              <>
                <p class="quiet">You are signed in as {user.value?.email}.</p>
                <Action tone="primary" run={accept} done={`Welcome to ${projectName}.`}>
                  Accept
                </Action>
                <Action tone="quiet" run={signOut}>
                  Use another account
                </Action>
              </>
            ) : (
              <>
                {known ? (
                  <SignInForm />
                ) : (
                  <RegisterForm email={email} inviteToken={token} onDone={() => route("/", true)} />
                )}
                <Providers names={registration.data?.providers ?? []} onLeave={() => heldInvitation.keep(token)} />
                <p class="small">
                  <button type="button" class="link" onClick={() => setKnown(!known)}>
                    {known ? "Create an account instead" : "I have an account"}
                  </button>
                </p>
              </>
            )}
          </>
        )}
      </Loaded>
    </SignedOutPage>
  );
}
