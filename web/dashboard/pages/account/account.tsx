import { useState } from "preact/hooks";
import { api, request, requestPage } from "../../api.ts";
import { useList } from "../../live.ts";
import { Action } from "../../parts/action.tsx";
import { ConfirmButton } from "../../parts/confirm.tsx";
import { Field } from "../../parts/field.tsx";
import { FormEnd, TextInput, useSubmit } from "../../parts/form.tsx";
import { BrowserName } from "../../parts/frame/browser.tsx";
import { NewPasswordField, PasswordField } from "../../parts/frame/credentials.tsx";
import { List } from "../../parts/list.tsx";
import { Badge, PageHead } from "../../parts/states.tsx";
import { Ago } from "../../parts/time.tsx";
import { toastDone } from "../../parts/toast.tsx";
import { adoptSession, signOut, user } from "../../session.ts";
import { SecondFactors } from "./second-factors.tsx";

export function Account() {
  return (
    <>
      <PageHead title="Your account" badge={user.value?.isOperator ? "operator" : undefined}>
        <Action run={signOut}>Sign out</Action>
      </PageHead>
      <Name />
      <Password />
      <SecondFactors />
      <h2>Sessions</h2>
      <Sessions />
    </>
  );
}

function Name() {
  const [name, setName] = useState(user.value?.name ?? "");
  const form = useSubmit(async () => {
    user.value = await request(api.v1.auth.me.patch({ name: name === "" ? null : name }));
    toastDone("Saved.");
  });
  return (
    <form class="card stack" onSubmit={form.onSubmit}>
      <h2>You</h2>
      <p class="quiet">{user.value?.email}</p>
      <Field label="Name" error={form.problem("name")}>
        <TextInput maxLength={80} autocomplete="name" value={name} onValue={setName} />
      </Field>
      <FormEnd form={form}>Save</FormEnd>
    </form>
  );
}

function Password() {
  const [currentPassword, setCurrent] = useState("");
  const [newPassword, setNew] = useState("");
  const form = useSubmit(async () => {
    adoptSession(await request(api.v1.auth.password.post({ currentPassword, newPassword })));
    setCurrent("");
    setNew("");
    toastDone("Your password was changed. Your other sessions have ended.");
  });
  return (
    <form class="card stack" onSubmit={form.onSubmit}>
      <h2>Password</h2>
      <PasswordField
        form={form}
        label="Current password"
        name="currentPassword"
        value={currentPassword}
        onValue={setCurrent}
      />
      <NewPasswordField form={form} label="New password" name="newPassword" value={newPassword} onValue={setNew} />
      <FormEnd form={form}>Change the password</FormEnd>
    </form>
  );
}

function Sessions() {
  const sessions = useList((page) => requestPage(api.v1.auth.sessions.get({ query: page })), []);
  return (
    <List
      label="sessions"
      live={sessions}
      id={({ id }) => id}
      empty="Nowhere."
      columns={[
        {
          title: "Browser",
          cell: ({ userAgent, current }) => (
            <>
              <BrowserName userAgent={userAgent} /> {current && <Badge>this one</Badge>}
            </>
          ),
        },
        { title: "Address", cell: ({ ipAddress }) => <code>{ipAddress}</code>, wide: true },
        { title: "Signed in", cell: ({ createdAt }) => <Ago at={createdAt} />, wide: true },
        { title: "Last seen", cell: ({ refreshedAt }) => <Ago at={refreshedAt} /> },
        {
          title: "Actions",
          actions: true,
          cell: ({ id, current, ipAddress }) =>
            !current && (
              <ConfirmButton
                button="Sign out"
                label={`Sign out the session from ${ipAddress}`}
                title="Sign out there?"
                action="Sign out"
                done="That session has ended."
                run={() => request(api.v1.auth.sessions({ sessionId: id }).delete()).then(sessions.reload)}
              >
                That browser has to sign in again.
              </ConfirmButton>
            ),
        },
      ]}
    />
  );
}
