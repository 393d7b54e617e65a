import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { PROJECT_ROLES, type ProjectRole } from "../../../../src/protocol/enums.ts";
import { request, requestPage } from "../../api.ts";
import { useList } from "../../live.ts";
import { ConfirmButton } from "../../parts/confirm.tsx";
import { Field } from "../../parts/field.tsx";
import { FormDialog, Select, TextInput, useSubmit } from "../../parts/form.tsx";
import { List } from "../../parts/list.tsx";
import { Badge, humanize, PageHead } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { Ago } from "../../parts/time.tsx";
import { attempt, toastDone } from "../../parts/toast.tsx";
import { may, useProject } from "../../project.ts";
import { user } from "../../session.ts";

const ROLE_HINTS: Record<ProjectRole, string> = {
  OWNER: "Everything, including archiving. Its account is charged for the minutes.",
  ADMIN: "Members, settings and the audit log as well.",
  DEVELOPER: "Rooms, live streams, keys and webhooks.",
  VIEWER: "Changes nothing, and sees neither the audit log nor moderation.",
};

/** Only an owner may add or remove owners. */
const assignableRoles = () => PROJECT_ROLES.filter((role) => role !== "OWNER" || may("owners:manage"));
const options = () => assignableRoles().map((value) => ({ value, label: humanize(value) }));

export function Members() {
  const { at, projectId } = useProject();
  const { route } = useLocation();
  const members = useList((page) => requestPage(at.members.get({ query: page })), [projectId]);
  const invitations = useList((page) => requestPage(at.invitations.get({ query: page })), [projectId]);
  const [adding, setAdding] = useState(false);
  const reload = () => {
    members.reload();
    invitations.reload();
  };
  const mayChange = (role: ProjectRole) => may(role === "OWNER" ? "owners:manage" : "members:manage");
  return (
    <>
      <PageHead title="Members">
        {may("members:manage") && (
          <button type="button" class="button primary" onClick={() => setAdding(true)}>
            Add a member
          </button>
        )}
      </PageHead>
      <List
        label="members"
        live={members}
        id={({ userId }) => userId}
        search={({ name, email }) => `${name ?? ""} ${email}`}
        empty="No members."
        columns={[
          {
            title: "Member",
            cell: ({ name, email, userId }) => (
              <>
                <b>{name || email}</b> {userId === user.value?.id && <Badge>you</Badge>}
                {name && <div class="quiet small">{email}</div>}
              </>
            ),
          },
          {
            title: "Role",
            cell: ({ userId, role, email }) =>
              mayChange(role) ? (
                <Select
                  label={`Role of ${email}`}
                  value={role}
                  options={options()}
                  onValue={(chosen) =>
                    void attempt(
                      () => request(at.members({ userId }).patch({ role: chosen })).finally(members.reload),
                      `${email} is ${humanize(chosen).toLowerCase()} now.`,
                    )
                  }
                />
              ) : (
                humanize(role)
              ),
          },
          { title: "Since", cell: ({ addedAt }) => <Ago at={addedAt} />, wide: true },
          {
            title: "Actions",
            actions: true,
            cell: ({ userId, role, email }) => {
              const self = userId === user.value?.id;
              if (!self && !mayChange(role)) return null;
              return (
                <ConfirmButton
                  button={self ? "Leave" : "Remove"}
                  label={self ? "Leave the project" : `Remove ${email}`}
                  title={self ? "Leave this project?" : `Remove ${email}?`}
                  action={self ? "Leave" : "Remove"}
                  done={self ? "You have left the project." : `${email} was removed.`}
                  run={async () => {
                    await request(at.members({ userId }).delete());
                    if (self) route("/");
                    else members.reload();
                  }}
                >
                  {self ? "You" : "They"} can return only if a member adds {self ? "you" : "them"} again.
                </ConfirmButton>
              );
            },
          },
        ]}
      />
      {invitations.data !== null && invitations.data.length > 0 && (
        <section class="stack">
          <h2>Invited</h2>
          <Table
            label="Invitations"
            rows={invitations.data}
            id={({ id }) => id}
            columns={[
              { title: "Address", cell: ({ email }) => email },
              { title: "Role", cell: ({ role }) => humanize(role) },
              { title: "Invited by", cell: ({ invitedBy }) => invitedBy ?? "–", wide: true },
              { title: "Expires", cell: ({ expiresAt }) => <Ago at={expiresAt} />, wide: true },
              {
                title: "Actions",
                actions: true,
                cell: ({ id, email }) =>
                  may("members:manage") && (
                    <ConfirmButton
                      button="Withdraw"
                      label={`Withdraw the invitation of ${email}`}
                      title="Withdraw this invitation?"
                      action="Withdraw"
                      done="The invitation was withdrawn."
                      run={() => request(at.invitations({ invitationId: id }).delete()).then(reload)}
                    >
                      The link in {email}'s mail stops working.
                    </ConfirmButton>
                  ),
              },
            ]}
          />
        </section>
      )}
      {adding && <AddMember onAdded={reload} onClose={() => setAdding(false)} />}
    </>
  );
}

function AddMember({ onAdded, onClose }: { onAdded: () => void; onClose: () => void }) {
  const { at } = useProject();
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<ProjectRole>("DEVELOPER");
  const form = useSubmit(async () => {
    const added = await request(at.members.post({ email, role }));
    toastDone(
      "userId" in added ? `${email} is a member now.` : `${email} was invited. Without mail, the link is in the log.`,
    );
    onAdded();
    onClose();
  });
  return (
    <FormDialog title="Add a member" action="Add" form={form} onClose={onClose}>
      <Field
        label="E-mail address"
        hint="People without an account receive an invitation."
        error={form.problem("email")}
      >
        <TextInput type="email" required value={email} onValue={setEmail} />
      </Field>
      <Field label="Role" hint={ROLE_HINTS[role]}>
        <Select value={role} onValue={setRole} options={options()} />
      </Field>
    </FormDialog>
  );
}
